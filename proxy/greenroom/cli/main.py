"""The command line's entry: which commands there are, and what a user sees when something goes wrong.

The rule: an error is one line on standard error, never a traceback. Exit code 2: it was called wrongly or a setting is
wrong; 1: it failed; else the command's own.
"""

import errno
import io
import signal
import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from greenroom import __version__
from greenroom.cli import (
    access,
    check,
    decisions,
    demo,
    etcd_role,
    gates,
    instances,
    policy,
    preview,
    rollout_holds,
    serve,
    verdict,
)
from greenroom.cli.control_place import with_files
from greenroom.cli.options import complain, let_go_of_stdout
from greenroom.errors import GreenroomError, SettingsError

CALLED_WRONGLY = 2
FAILED = 1
INTERRUPTED = 128 + signal.SIGINT
FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO})
"""What standard output says where it is a file that takes no more."""

app = typer.Typer(
    name="greenroom",
    help="Keeps inference workers out of routing until their gates pass.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)
app.command()(serve.serve)
app.command()(instances.instances)
app.command()(instances.instance)
app.command()(verdict.verdict)
app.command()(instances.wait)
app.command()(decisions.release)
app.command()(decisions.reject)
app.command()(decisions.withdraw)
app.command()(decisions.retry)
app.command()(decisions.drop)
app.command()(decisions.revoke_lease)
app.add_typer(rollout_holds.app, name="rollout-hold")
app.add_typer(preview.app, name="preview")
app.add_typer(policy.app, name="policy")
app.add_typer(access.app, name="access")
app.add_typer(check.app, name="check")
app.add_typer(gates.app, name="gates")
app.command()(etcd_role.etcd_role)
app.command()(demo.demo)
with_files(app)


def _print_version(wanted: bool) -> None:  # typer calls it
    if wanted:
        print(f"greenroom {__version__}")
        raise typer.Exit


@app.callback()
def _common(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Keeps inference workers out of routing until their gates pass."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a command and returns its exit code."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        # Names and reasons come from everywhere; a terminal whose encoding lacks their letters shows their numbers.
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        code = _exit_code(app(args=arguments, prog_name="greenroom", standalone_mode=False))
        sys.stdout.flush()
        return code
    except SettingsError as error:
        return _failed(str(error), CALLED_WRONGLY)
    except GreenroomError as error:
        return _failed(str(error), FAILED)
    except typer.TyperException as error:
        return _failed(error.format_message(), error.exit_code)
    except (KeyboardInterrupt, typer.Abort):
        return INTERRUPTED
    except BrokenPipeError:
        # Whoever read us has gone, as `| head` does.
        let_go_of_stdout()
        return FAILED
    except OSError as error:
        if error.errno not in FULL or error.filename is not None:
            raise
        let_go_of_stdout()
        return _failed(f"standard output: {error.strerror}", FAILED)


def _exit_code(returned: object) -> int:
    return returned if isinstance(returned, int) else 0


def _failed(message: str, code: int) -> int:
    if message.strip():  # A command without its subcommand has printed its help instead.
        complain(f"greenroom: {message}")
    return code


if __name__ == "__main__":
    sys.exit(main())
