"""A run's tables and its JSON.

The rule: the tables are Markdown and can be read as text, so the same lines go to the terminal and into the dated copy.
Medians over the rounds; `a (b-c)` is a median with the least and the most of the rounds. JSON has each round's figures.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from tests.bench import lift, scale
from tests.bench.figures import Case, Samples, Spread, cases, figure, ratio, spread, ways_of
from tests.bench.targets import Judged, judge
from tests.bench.ways import DIRECT, GREENROOM, GRPC_PROXY, HAPROXY, WAYS

SCHEMA_VERSION: Final = 1


@dataclass(frozen=True, slots=True)
class Table:
    """One figure: a row a case, a column a way, and then Greenroom's ratios to some of them."""

    title: str
    figure: str
    ratios_to: tuple[str, ...] = ()


TABLES: Final[Sequence[Table]] = (
    Table("Processor time of the proxy a call (fan-out: an event delivered), us", "cpu_us", (GRPC_PROXY, HAPROXY)),
    Table("Calls a second (fan-out: events delivered)", "calls_per_second", (DIRECT,)),
    Table("Latency p50, us (fan-out: until the last watcher; visible: until the watcher)", "p50_us", (DIRECT, HAPROXY)),
    Table("Latency p99, us", "p99_us"),
    Table(
        "Idle clients: processor time a second for 1,000 of them, us",
        "cpu_us_per_second_per_1000",
        (GRPC_PROXY, HAPROXY),
    ),
    Table("Idle clients: memory a connection, KiB", "memory_kib_per_connection", (GRPC_PROXY, HAPROXY)),
    Table("Start: until ready, s", "seconds"),
    Table("Lifting a rollout hold over ready instances, against as many plain Txns, s", lift.SECONDS, (DIRECT,)),
)
SCALE: Final[Mapping[str, str]] = {
    "registration: processor time of one, us": "registration_cpu_us",
    "memory of one held instance, KiB": "memory_kib_per_instance",
    "memory of the process, MiB": "memory_mib",
    f"verdict at {scale.VERDICTS_PER_SECOND} a second: processor time of one, us": "verdict_cpu_us",
    "verdict to visible: p50, ms": "verdict_p50_ms",
    "verdict to visible: p99, ms": "verdict_p99_ms",
    "list, one page: until it is there, ms": "list_page_ms",
    "list, one page: processor time, ms": "list_page_cpu_ms",
    "list, a filter that nobody matches: until it is there, ms": "list_filtered_ms",
    "list, a filter that nobody matches: processor time, ms": "list_filtered_cpu_ms",
    "list, all pages: until all is there, s": "list_all_s",
    "list, all pages: processor time an instance, us": "list_all_cpu_us_per_instance",
    "metrics: until they are there, ms": "scrape_ms",
    "metrics: processor time, ms": "scrape_cpu_ms",
    "rollout hold of nobody, made and lifted: processor time, ms": "hold_cpu_ms",
    "the longest relayed call meanwhile, ms": "longest_relayed_ms",
    "start of a second proxy: ready after, s": "ready_s",
    "start of a second proxy: processor time an instance, us": "ready_cpu_us_per_instance",
}
"""What each row of the scale's table says, and its figure."""


def markdown(facts: Mapping[str, str], options: Mapping[str, Any], samples: Samples) -> str:
    """All of a run that people read."""
    parts = [
        _list({**facts, "run": _run(options), "others": _others(samples)}),
        _section("Targets", _targets(judge(samples))),
    ]
    parts += [_section(table.title, _rows(table, samples)) for table in TABLES if _cases(table, samples)]
    if sizes := [case for case in cases(samples) if case.subject == scale.SUBJECT]:
        parts.append(_section("Scale: one proxy, so many held", _side_by_side(sizes, samples)))
    return "\n\n".join(parts) + "\n"


def as_json(began: str, facts: Mapping[str, str], options: Mapping[str, Any], samples: Samples) -> str:
    """All of a run."""
    said = {
        "schema_version": SCHEMA_VERSION,
        "began": began,
        "facts": facts,
        "options": options,
        "targets": [_judged(one) for one in judge(samples)],
        "samples": [asdict(sample) for sample in samples],
    }
    return json.dumps(said, indent=1) + "\n"


def _run(options: Mapping[str, Any]) -> str:
    return (
        f"{options['rounds']} rounds of {options['seconds']:g} s after {options['warm_up_seconds']:g} s of warming up"
    )


def _others(samples: Samples) -> str:
    """How much else went on, which is what spoils a run."""
    used = [sample.figures["others_cpu_percent"] for sample in samples if "others_cpu_percent" in sample.figures]
    found = spread(used)
    if found is None:
        return "not measured"
    return f"{found.median:.0f} % of one processor in the median cell, {found.most:.0f} % in the worst"


def _judged(one: Judged) -> dict[str, Any]:
    return {
        "target": one.target.name,
        "at_most": one.target.at_most,
        "case": asdict(one.case),
        "found": asdict(one.found),
        "met": one.met,
    }


def _targets(judged: Iterable[Judged]) -> list[list[str]]:
    head = ["target", "at most", "case", "found", ""]
    return [head] + [
        [one.target.name, f"{one.target.at_most:g}", _name(one.case), _with_rounds(one.found), one.in_words]
        for one in judged
    ]


def _rows(table: Table, samples: Samples) -> list[list[str]]:
    found = _cases(table, samples)
    ways = _columns(table, samples, found)
    ratios_to = [way for way in table.ratios_to if way in ways and GREENROOM in ways]
    rows = [["case", *ways, *(f"{GREENROOM} / {way}" for way in ratios_to)]]
    for case in found:
        values = [_number(figure(samples, case, way, table.figure)) for way in ways]
        ratios = [_with_rounds(ratio(samples, case, table.figure, GREENROOM, way)) for way in ratios_to]
        rows.append([_name(case), *values, *ratios])
    return rows


def _side_by_side(sizes: Sequence[Case], samples: Samples) -> list[list[str]]:
    """A row a figure, a column a size, and how often the first's figure goes into the last's."""
    least, most = sizes[0], sizes[-1]
    rows = [["figure", *(f"{case.size:,} held" for case in sizes), f"{most.size:,} / {least.size:,}"]]
    for title, name in SCALE.items():
        found = [figure(samples, case, GREENROOM, name) for case in sizes]
        first, last = found[0], found[-1]
        grown = _digits(last.median / first.median) if first and last and first.median else ""
        rows.append([title, *map(_number, found), grown])
    return rows


def _cases(table: Table, samples: Samples) -> list[Case]:
    shown = {sample.case for sample in samples if table.figure in sample.figures}
    return [case for case in cases(samples) if case in shown]


def _columns(table: Table, samples: Samples, found: Iterable[Case]) -> list[str]:
    """The four ways in their order, then any others; only those that have the figure in some case."""
    all_ways = dict.fromkeys([*WAYS, *(way for case in found for way in ways_of(samples, case))])
    return [way for way in all_ways if any(figure(samples, case, way, table.figure) for case in found)]


def _name(case: Case) -> str:
    return f"{case.subject} x {case.size}"


def _number(spread: Spread | None) -> str:
    return "" if spread is None else _digits(spread.median)


def _with_rounds(spread: Spread | None) -> str:
    if spread is None:
        return ""
    median = _digits(spread.median)
    return median if spread.least == spread.most else f"{median} ({_digits(spread.least)}-{_digits(spread.most)})"


def _digits(value: float) -> str:
    """Three digits that count, and no more behind the point than they need."""
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def _list(facts: Mapping[str, str]) -> str:
    return "\n".join(f"* {name}: {fact}" for name, fact in facts.items())


def _section(title: str, rows: Sequence[Sequence[str]]) -> str:
    return f"## {title}\n\n{_table(rows)}"


def _table(rows: Sequence[Sequence[str]]) -> str:
    """Text to the left, all else to the right, in columns of even width."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    rule = ["-" * width if column == 0 else "-" * (width - 1) + ":" for column, width in enumerate(widths)]
    return "\n".join(
        "| " + " | ".join(_aligned(cell, column, widths[column]) for column, cell in enumerate(row)) + " |"
        for row in (rows[0], rule, *rows[1:])
    )


def _aligned(cell: str, column: int, width: int) -> str:
    return cell.ljust(width) if column == 0 else cell.rjust(width)
