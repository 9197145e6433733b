"""The other files of deploy/: the page, the alerts, the compose file, the images, and what the programs read."""

import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import promql_parser
import pytest
import yaml

from greenroom.access.entries import parse_entries
from greenroom.access.roles import Role
from greenroom.access.tokens import digest_of
from greenroom.cli.main import main
from greenroom.core.policy import Policy
from greenroom.durations import parse_duration
from greenroom.gates.checks.golden_file import load_golden
from greenroom.gates.commands import load_checks
from greenroom.gates.gate_config import Gates, gates_of
from greenroom.policy_file import parse_policy
from tests.support.access_page import made_by_the_page
from tests.support.commands import parsed, shown_in_blocks, shown_in_text, unknown
from tests.support.manifests import DEPLOY, FILES, container, containers, named, objects

ROOT = DEPLOY.parent
PAGE = DEPLOY / "README.md"
COMPOSE = DEPLOY / "compose.yaml"
SERVICES = yaml.safe_load(COMPOSE.read_text())["services"]
DOCKERFILE = (DEPLOY / "Dockerfile").read_text()
KUBERNETES, COMPOSED = "kubernetes", "compose"


@pytest.fixture(params=[KUBERNETES, COMPOSED])
def read_files(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A folder with policy.yaml, gates.yaml and checks.yaml, as the programs are given them."""
    if request.param == COMPOSED:
        return DEPLOY / "compose"
    for config_map in objects("ConfigMap"):
        for name, text in config_map["data"].items():
            (tmp_path / name).write_text(text)
    return tmp_path


def policy_in(folder: Path) -> Policy:
    return parse_policy((folder / "policy.yaml").read_text())


def policy_in_manifests() -> Policy:
    return parse_policy(named("ConfigMap", "greenroom-policy")["data"]["policy.yaml"])


def gates_in(folder: Path) -> Gates:
    return gates_of(folder / "gates.yaml", "")


def test_the_policy_is_one_that_a_proxy_takes_without_a_word(
    read_files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["policy", "lint", str(read_files / "policy.yaml")]) == 0
    assert capsys.readouterr().err == ""


def test_each_gate_of_the_policy_has_its_check_and_time_for_it(read_files: Path) -> None:
    asked = {name: gate.timeout_seconds for rule in policy_in(read_files).rules for name, gate in rule.gates.items()}
    run = {name: gate.timeout_secs for name, gate in gates_in(read_files).items()}
    assert run.keys() == asked.keys()
    assert all(run[name] <= asked[name] for name in asked)


def test_there_is_a_command_and_a_url_among_the_gates(read_files: Path) -> None:
    gates = gates_in(read_files).values()
    assert {bool(gate.exec) for gate in gates} == {True, False}
    assert {bool(gate.url) for gate in gates} == {True, False}


def test_commands_of_gates_and_checks_are_understood(read_files: Path) -> None:
    checks = load_checks(read_files / "checks.yaml")
    for words in [*(gate.exec for gate in gates_in(read_files).values() if gate.exec), *checks.values()]:
        assert words[0] == "greenroom"
        parsed(words[1:])


@pytest.mark.parametrize("arguments", [SERVICES["checks"]["command"], container("llama/checks").arguments])
def test_urls_of_gates_lead_to_checks_of_the_sidecar(read_files: Path, arguments: list[str]) -> None:
    listens = parsed(arguments)["listen"]
    checks = load_checks(read_files / "checks.yaml")
    urls = {gate.url for gate in gates_in(read_files).values() if gate.url}
    assert urls == {f"http://{listens}/validate/{name}" for name in checks}


def test_known_answers_can_be_read(tmp_path: Path) -> None:
    (tmp_path / "golden.yaml").write_text(named("ConfigMap", "llama-gates")["data"]["golden.yaml"])
    assert load_golden(tmp_path / "golden.yaml").prompts


def test_a_rollout_has_time_for_its_gates() -> None:
    longest = max(gate.timeout_seconds for rule in policy_in_manifests().rules for gate in rule.gates.values())
    assert named("Deployment", "llama")["spec"]["progressDeadlineSeconds"] > longest


@pytest.mark.parametrize(
    "arguments",
    [
        *(pytest.param(one.arguments, id=one.name) for one in containers() if one.is_ours),
        *(
            pytest.param(one["command"], id=name)
            for name, one in SERVICES.items()
            if "command" in one and name != "etcd"
        ),
    ],
)
def test_arguments_of_containers_are_understood(arguments: list[str]) -> None:
    assert parsed(arguments)


@pytest.mark.parametrize("words", shown_in_blocks(PAGE), ids=" ".join)
def test_commands_of_the_page_are_understood(words: list[str]) -> None:
    assert unknown(words) is None


@pytest.mark.parametrize("path", [PAGE, DEPLOY / "alerts.yaml", *FILES], ids=lambda path: path.name)
def test_commands_within_text_are_known(path: Path) -> None:
    assert [found for words in shown_in_text(path) if (found := unknown(words))] == []


def test_the_page_names_each_file_and_none_that_is_not_there() -> None:
    linked = {(DEPLOY / link).resolve() for link in re.findall(r"\]\(([^)#]+)", PAGE.read_text())}
    assert all(path.exists() for path in linked)
    assert {*FILES, DEPLOY / "Dockerfile", COMPOSE, DEPLOY / "alerts.yaml"} <= linked
    applied = re.findall(r"-f (deploy/\S+)", PAGE.read_text())
    assert applied
    assert all((ROOT / path).is_file() for path in applied)


def test_the_page_makes_an_access_file_and_its_tokens(tmp_path: Path) -> None:
    """The block is run as it stands; tests/integration/test_deploy_proxy.py shows that a proxy obeys what it makes."""
    access, tokens = made_by_the_page(tmp_path)
    ann, runner = parse_entries(access)
    assert (ann.name, ann.role, runner.name, runner.role) == ("ann", Role.OPERATOR, "runner", Role.REPORTER)
    assert runner.gates is not None
    assert {*runner.gates} == {*policy_in_manifests().rules[0].gates}
    for caller in (ann, runner):
        assert caller.token_sha256 == (digest_of(tokens[caller.name].strip()),)


def test_compose_keeps_the_specification() -> None:
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.compose-spec", str(COMPOSE)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout


def test_compose_publishes_to_its_own_machine_only() -> None:
    ports = [port for service in SERVICES.values() for port in service.get("ports", [])]
    assert ports
    assert all(port.startswith("127.0.0.1:") for port in ports)


def test_workers_of_compose_have_no_way_round_the_proxy() -> None:
    assert "store" not in SERVICES["worker"]["networks"]
    assert [name for name, one in SERVICES.items() if "store" in one.get("networks", ())] == [
        "etcd",
        "greenroom",
        "frontend",
    ]
    asked = {name: one["environment"].get("ETCD_ENDPOINTS") for name, one in SERVICES.items() if "environment" in one}
    assert asked == {"worker": "http://greenroom:2389", "runner": None, "frontend": "http://etcd:2379"}


def test_folders_that_compose_mounts_are_there() -> None:
    mounts = [mount for one in SERVICES.values() for mount in one.get("volumes", [])]
    folders = {mount.partition(":")[0] for mount in mounts if mount.startswith(".")}
    assert folders
    assert all((DEPLOY / folder).is_dir() for folder in folders)


def test_alerts_are_expressions_and_say_what_to_do() -> None:
    for rule in alerts():
        promql_parser.parse(rule["expr"])
        parse_duration(rule.get("for", "0.1s"))
        assert rule["labels"]["severity"] in ("page", "ticket")
        assert rule["annotations"].keys() == {"summary", "description"}


def test_words_of_alerts_use_labels_that_the_expression_keeps() -> None:
    for rule in alerts():
        kept = set(re.findall(r"\w+", "".join(re.findall(r"by \(([^)]*)\)", rule["expr"]))))
        used = set(re.findall(r"\$labels\.(\w+)", " ".join(rule["annotations"].values())))
        assert used <= kept, rule["alert"]


def alerts() -> list[dict[str, Any]]:
    [group] = yaml.safe_load((DEPLOY / "alerts.yaml").read_text())["groups"]
    rules: list[dict[str, Any]] = group["rules"]
    assert len({rule["alert"] for rule in rules}) == len(rules)
    return rules


def instructions(stage: str) -> list[list[str]]:
    """The words of a stage's instructions."""
    joined = DOCKERFILE.replace("\\\n", " ")
    stages = re.split(r"^FROM ", joined, flags=re.MULTILINE)[1:]
    [found] = [one for one in stages if one.partition("\n")[0].endswith(f" AS {stage}")]
    return [line.split() for line in found.splitlines()[1:] if line and not line.startswith("#")]


def test_images_run_as_a_number_that_is_not_root() -> None:
    assert ["USER", "10001:10001"] in instructions("proxy")
    assert "FROM proxy AS runner" in DOCKERFILE
    assert all(words[0] != "USER" for words in instructions("runner"))


def test_images_are_made_of_files_that_there_are_and_of_no_others() -> None:
    copied = {
        name
        for stage in ("build", "dynamo", "proxy", "runner")
        for words in instructions(stage)
        if words[0] == "COPY" and not words[1].startswith("--")
        for name in words[1:-1]
    }
    assert all((ROOT / name).exists() for name in copied)
    ignored = (DEPLOY / "Dockerfile.dockerignore").read_text().splitlines()
    assert "*" in ignored
    assert {line[1:] for line in ignored if line.startswith("!")} == copied
    project = (ROOT / "pyproject.toml").read_text()
    assert set(re.findall(r'readme = "(\S+)"|license-files = \["(\S+)"\]', project)[0] + ("LICENSE",)) - {""} <= copied


def test_images_are_of_a_version() -> None:
    """One that is called `latest` is another one after each restart; ours are of the version that is here."""
    used = [*(one.spec["image"] for one in containers()), *re.findall(r"^FROM (\S+:\S+)", DOCKERFILE, re.MULTILINE)]
    used += [one["image"] for name, one in SERVICES.items() if name != "etcd"]
    versions = {name: name.partition(":")[2] for name in used}
    assert all(version[:1].isdigit() for version in versions.values()), versions
    ours = {version for name, version in versions.items() if name.startswith("greenroom")}
    assert ours == {tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]}


def test_images_carry_no_secrets() -> None:
    assert "ADD " not in DOCKERFILE
    for words in re.findall(r"^(?:ENV|ARG) (.*)$", DOCKERFILE, re.MULTILINE):
        for name in shlex.split(words):
            assert not re.search(r"TOKEN|PASSWORD|SECRET|KEY", name.partition("=")[0])
