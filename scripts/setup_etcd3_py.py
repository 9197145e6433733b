"""Makes the environment of etcd3-py, the tests' independent observer on etcd's JSON port, and prints its Python.

The rule: it stays out of the project's environment, since it brings old dependencies of its own.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from setup_common import cache_folder, cached_environment, main_of

VERSION = "0.1.6"
INSTALLS = [[f"etcd3-py=={VERSION}"]]
CHECK = "import etcd3; etcd3.Client"


def home() -> Path:
    """GREENROOM_ETCD3_PY, else a folder of the user's cache."""
    return Path(os.environ.get("GREENROOM_ETCD3_PY") or cache_folder() / f"etcd3-py-{VERSION}")


def ensure() -> Path:
    """The Python of a complete environment; SetupError when it cannot be made."""
    return cached_environment(home(), INSTALLS, CHECK)


if __name__ == "__main__":
    sys.exit(main_of(lambda: print(ensure())))
