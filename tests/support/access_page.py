"""The access file and the tokens that deploy/README.md has its reader make: its block, run as it stands."""

import re
import subprocess
from pathlib import Path

from tests.support.greenroom import CLI_SECONDS, environment, program_in
from tests.support.manifests import DEPLOY

_BLOCK = re.compile(r"```sh\n(umask 077\n.*?)```", re.DOTALL)


def made_by_the_page(folder: Path) -> tuple[str, dict[str, str]]:
    """The text of access.yaml, and the text of each token's file by its caller."""
    block = _BLOCK.search((DEPLOY / "README.md").read_text())
    assert block is not None
    told, programs = environment(), program_in(folder / "bin")
    subprocess.run(
        ["bash", "-euo", "pipefail", "-c", block[1]],
        cwd=folder,
        env={**told, "PATH": f"{programs}:{told['PATH']}"},
        check=True,
        timeout=CLI_SECONDS,
    )
    tokens = {path.stem: path.read_text() for path in folder.glob("*.token")}
    return (folder / "access.yaml").read_text(), tokens
