"""`make bench`: Greenroom side by side with direct etcd, etcd's grpc-proxy and haproxy, in one run.

    make bench
    make bench ARGS="--quick"                              # one short round, to see that it works
    make bench ARGS="--only range,put256 --connections 1"
    make bench ARGS="--copy"                               # a dated copy beside the README as well

It measures, it judges nothing: the exit code is 0 whether targets are met or not.
"""

import argparse
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

from tests.bench import fanout, gated, idle, lift, machine, own_loader, scale, start_up, unary, visible
from tests.bench.report import as_json, markdown
from tests.bench.session import Options, Session, open_session
from tests.bench.ways import check_programs
from tests.bench.workloads import WORKLOADS

FOLDER = Path(__file__).parent
RESULTS, HISTORY = FOLDER / "results", FOLDER / "history"
MEASURES: Sequence[Callable[[Session], None]] = (
    own_loader.measure,
    unary.measure,
    gated.measure,
    visible.measure,
    fanout.measure,
    idle.measure,
    start_up.measure,
    lift.measure,
    scale.measure,
)
SUBJECTS = (
    *(own_loader.SUBJECT, *WORKLOADS, *gated.SUBJECTS),
    *(visible.SUBJECT, fanout.SUBJECT, idle.SUBJECT, start_up.SUBJECT, lift.SUBJECT, scale.SUBJECT),
)
QUICK = Options(
    rounds=1,
    seconds=0.5,
    warm_up_seconds=0.1,
    idle_clients=(200,),
    held_at_start=100,
    held=(100, 1000),
    lifted=100,
)


def main() -> None:
    """Measures, prints, and keeps what was found."""
    arguments = _arguments()
    check_programs()
    options, began = _options(arguments), datetime.now(UTC)
    facts = machine.facts()
    with open_session(options) as session:
        for measure in MEASURES:
            measure(session)
    told, asked = markdown(facts, asdict(options), session.samples), asdict(options)
    print(told)
    kept = as_json(began.isoformat(timespec="seconds"), facts, asked, session.samples)
    _keep(RESULTS, f"{began:%Y-%m-%dT%H%M%SZ}", told, kept)
    if arguments.copy:
        name = "-".join((f"{began:%Y-%m-%d}", *options.only))
        _keep(HISTORY, name, f"# {name}\n\n{told}", kept)


def _keep(folder: Path, name: str, told: str, kept: str) -> None:
    folder.mkdir(exist_ok=True)
    for suffix, text in ((".md", told), (".json", kept)):
        path = folder / f"{name}{suffix}"
        path.write_text(text)
        print(f"kept: {path}", file=sys.stderr)


def _options(arguments: argparse.Namespace) -> Options:
    given = {name: getattr(arguments, name) for name in ("rounds", "seconds", "connections", "held", "only")}
    base = asdict(QUICK if arguments.quick else Options())
    return Options(**base | {name: value for name, value in given.items() if value is not None})


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make bench", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="one short round of each")
    parser.add_argument("--copy", action="store_true", help="keep a dated copy in tests/bench/history")
    parser.add_argument("--rounds", type=int, help="how many (default: 5)")
    parser.add_argument("--seconds", type=float, help="how long a cell is (default: 2)")
    parser.add_argument("--connections", type=_numbers, metavar="N[,N…]", help="default: 1,16,64")
    parser.add_argument("--held", type=_numbers, metavar="N[,N…]", help="sizes of scale (default: 1000,10000)")
    parser.add_argument("--only", type=_subjects, metavar="SUBJECT[,…]", help=", ".join(SUBJECTS))
    return parser.parse_args()


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(","))


def _subjects(text: str) -> tuple[str, ...]:
    wanted = tuple(text.split(","))
    if unknown := set(wanted) - set(SUBJECTS):
        raise argparse.ArgumentTypeError(f"no subject: {', '.join(sorted(unknown))}")
    return wanted


if __name__ == "__main__":
    main()
