"""`greenroom policy lint|show|explain`: whether a policy file is right, which one is in force, whom it asks for what.

The rule: what a file says is judged here as a proxy judges it; which policy is in force only a proxy can tell.
"""

import json
from pathlib import Path
from typing import Annotated

import typer

from greenroom.addresses import DEFAULT_CONTROL
from greenroom.cli.options import Control, Output, OutputFormat, TokenFile, complain, connect, say
from greenroom.cli.policy_words import explanation_json, explanation_lines, policy_json, refusals
from greenroom.core.cards import Attributes
from greenroom.core.policy import Policy
from greenroom.errors import ControlError, SettingsError
from greenroom.pb.control.v1 import control_pb2

FAILED = 1

app = typer.Typer(no_args_is_help=True, help="Which instances need which gates: policy files, and the one in force.")

File = Annotated[str, typer.Argument(metavar="FILE", help="A policy file.")]
PolicyFile = Annotated[
    str | None, typer.Option("--policy", metavar="FILE", help="This file, instead of the policy in force at the proxy.")
]
Name = str | None


@app.command()
def lint(file: File) -> int:
    """Exit code 1, a line for each mistake: no proxy would take it. What is odd about a right one is told with 0."""
    from greenroom.core.lint import oddities
    from greenroom.policy_file import PolicyFileError, located, parse_policy
    from greenroom.yaml_files import read_text

    try:
        text = read_text(Path(file))
        policy = parse_policy(text)
    except PolicyFileError as error:
        for mistake in error.each:
            complain(f"{file}: {mistake}")
        return FAILED
    found = oddities(policy)
    for oddity in found:
        complain(f"{file}: warning: {located(text, oddity.path)}{oddity.says}")
    rules, gates = len(policy.rules), len(policy.gate_names)
    say(f"{file}: {_count(rules, 'rule')}, {_count(gates, 'gate')}, {_count(len(found), 'warning')}")
    say(f"digest {policy.digest}")
    return 0


@app.command()
def show(
    policy: PolicyFile = None,
    output: Output = OutputFormat.TABLE,
    control: Control = DEFAULT_CONTROL,
    token_file: TokenFile = None,
) -> None:
    """The policy in force at the proxy, as a file that says the same; what is wrong with it on standard error."""
    message, parsed = _policy(policy, control, token_file)
    for line in refusals(message):
        complain(line)
    if output is OutputFormat.JSON:
        print(json.dumps(policy_json(message, parsed), indent=2))
        return
    say(f"# digest {message.digest}", *message.text.splitlines())


@app.command()
def explain(
    namespace: Annotated[str, typer.Option("--namespace", metavar="NAME", help="The instance's namespace.")],
    component: Annotated[Name, typer.Option("--component", metavar="NAME", help="Not given: not known.")] = None,
    endpoint: Annotated[Name, typer.Option("--endpoint", metavar="NAME", help="Not given: not known.")] = None,
    model: Annotated[Name, typer.Option("--model", metavar="NAME", help="Not given: not known.")] = None,
    suffix: Annotated[str, typer.Option("--suffix", metavar="NAME", help="For a LoRA card: its suffix.")] = "",
    policy: PolicyFile = None,
    output: Output = OutputFormat.TABLE,
    control: Control = DEFAULT_CONTROL,
    token_file: TokenFile = None,
) -> None:
    """Which rules are about such an instance, why the others are not, and which gates follow from whom.

    What is not known counts as a match, as it does where a worker's card cannot be read.
    """
    from greenroom.core.explain import explain as explained

    _, parsed = _policy(policy, control, token_file)
    attributes = Attributes(namespace, component, endpoint, model, suffix)
    explanation = explained(parsed, attributes)
    if output is OutputFormat.JSON:
        print(json.dumps(explanation_json(attributes, explanation), indent=2))
        return
    say(*explanation_lines(attributes, explanation))


def _policy(file: str | None, control: str, token_file: str | None) -> tuple[control_pb2.Policy, Policy]:
    """The file's policy, or the one in force, as a message and as what it means."""
    return _in_force(control, token_file) if file is None else _of_file(file)


def _of_file(file: str) -> tuple[control_pb2.Policy, Policy]:
    from greenroom.policy_file import PolicyFileError, load_policy, policy_text

    try:
        policy = load_policy(Path(file))
    except PolicyFileError as error:
        raise SettingsError(f"--policy '{file}': {error}") from error
    return control_pb2.Policy(name="policy", text=policy_text(policy), digest=policy.digest, file=file), policy


def _in_force(control: str, token_file: str | None) -> tuple[control_pb2.Policy, Policy]:
    from greenroom.policy_file import PolicyFileError, parse_policy

    with connect(control, token_file) as client:
        message = client.policy()
    try:
        return message, parse_policy(message.text)
    except PolicyFileError as error:
        raise ControlError(f"the proxy at {control} has a policy that this version cannot read: {error}") from error


def _count(number: int, word: str) -> str:
    return f"{number} {word}{'' if number == 1 else 's'}"
