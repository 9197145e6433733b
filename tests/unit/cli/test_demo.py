"""`greenroom demo` hands its outcome on as its exit code."""

import pytest
import typer

from greenroom.cli.demo import demo
from greenroom.demo import run


@pytest.mark.parametrize("outcome", [0, 1])
def test_the_exit_code_is_the_demonstrations(outcome: int, monkeypatch: pytest.MonkeyPatch) -> None:
    kept: list[bool] = []
    monkeypatch.setattr(run, "run", lambda *, keep: kept.append(keep) or outcome)
    with pytest.raises(typer.Exit) as raised:
        demo(keep=True)
    assert (raised.value.exit_code, kept) == (outcome, [True])
