"""Makes the environment that the end-to-end tests run real Dynamo in, and prints its Python.

The rule: it lies in the user's cache, apart from the project's, and is made once for each version of Dynamo.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from setup_common import cache_folder, cached_environment, main_of

VERSION = "1.6.1"
INSTALLS = [
    [f"ai-dynamo-runtime=={VERSION}"],
    # One of its requirements, aisimulate, has no wheel that installs, and nothing here uses it. So what the mocker,
    # the frontend and a Python worker do import is named below instead.
    ["--no-deps", f"ai-dynamo=={VERSION}"],
    [
        *("aiohttp", "certifi", "kubernetes>=32.0.1,<33", "msgspec", "prometheus-client>=0.23.1", "pyzmq"),
        *("redis>=6.2", "tqdm", "transformers>=4.56", "zstandard"),
    ],
]
CHECK = (
    "import dynamo.frontend.main, dynamo.llm, dynamo.mocker.main, dynamo.runtime, tokenizers, transformers;"
    f"from importlib.metadata import version; assert version('ai-dynamo') == '{VERSION}'"
)


def home() -> Path:
    """GREENROOM_DYNAMO, else a folder of the user's cache."""
    return Path(os.environ.get("GREENROOM_DYNAMO") or cache_folder() / f"dynamo-{VERSION}")


def ensure() -> Path:
    """The Python of a complete environment; SetupError when it cannot be made."""
    return cached_environment(home(), INSTALLS, CHECK)


if __name__ == "__main__":
    sys.exit(main_of(lambda: print(ensure())))
