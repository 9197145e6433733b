"""`greenroom demo`: the whole story in a quarter of a minute, on this machine."""

from typing import Annotated

import typer

Keep = Annotated[bool, typer.Option("--keep", help="Leave it running at the end, and say what to try.")]


def demo(keep: Keep = False) -> None:
    """Workers register, are held, checked, released, rejected, and expire; exit code 0 if all of it was seen."""
    from greenroom.demo.run import run

    raise typer.Exit(run(keep=keep))
