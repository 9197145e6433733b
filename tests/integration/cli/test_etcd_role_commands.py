"""What is printed means in a shell what it should."""

import subprocess

from greenroom.cli.etcd_role_commands import shell_word


def test_a_word_stands_for_its_bytes() -> None:
    texts = [b"v1/mdc/", b"a b", b"\x01greenroom/held/", b"\x01a'b\\c", "ü".encode(), b"\x02", b"\xff$a`b`"]
    script = f"printf '%s\\n' {' '.join(map(shell_word, texts))}"
    assert subprocess.run(["bash", "-c", script], capture_output=True).stdout.splitlines() == texts
