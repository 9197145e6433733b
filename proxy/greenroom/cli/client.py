"""The calls of the control API as commands make them: those of every program, their errors in words of commands.

The rule: nothing but the words. Options that are named here exist.
"""

from typing import Final

from greenroom.client.calls import ControlCalls
from greenroom.client.naming import Naming
from greenroom.client.place import INSECURE_VARIABLE, TOKEN_FILE_VARIABLE, TOKEN_VARIABLE

OPTIONS: Final = Naming(
    control="--control",
    elsewhere="by --control or GREENROOM_CONTROL",
    ca="--control-ca",
    cert="--control-cert",
    key="--control-key",
    token=TOKEN_VARIABLE,
    token_file="--token-file",
    known_by=f"--token-file, {TOKEN_FILE_VARIABLE} or {TOKEN_VARIABLE}",
    insecure=f"say {INSECURE_VARIABLE}=1",
    advice={
        "UNKNOWN_INSTANCE": "`greenroom instances` lists those that there are",
        "UNKNOWN_ROLLOUT_HOLD": "`greenroom rollout-hold list` lists those that there are",
        "UNKNOWN_PREVIEW": "`greenroom preview list` lists those that there are",
    },
)


class ControlClient(ControlCalls):
    """One connection of a command to a proxy's control port; `with` closes it."""

    naming: Naming = OPTIONS
