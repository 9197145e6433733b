"""Changes of the list, one line each."""

import json

from greenroom.cli.options import OutputFormat
from greenroom.cli.watching import changes
from tests.support.shown import shown


def by_id(*instances: object) -> dict[str, object]:
    return {instance.id: instance for instance in instances}  # type: ignore[attr-defined]


def test_new_changed_and_gone_are_told_and_the_rest_is_not() -> None:
    before = by_id(shown("a1"), shown("b2"), shown("c3"))
    passed = shown("b2", state="RELEASED", gates={"smoke": "PASSED"})
    passed.record_revision = 9
    after = by_id(shown("a1"), passed, shown("d4"))
    lines = changes(before, after, OutputFormat.TABLE)  # type: ignore[arg-type]
    assert [line.split()[1:4] for line in lines] == [
        ["changed", "b2", "RELEASED"],
        ["seen", "d4", "HELD"],
        ["gone", "c3", "HELD"],
    ]


def test_an_address_that_became_known_is_a_change() -> None:
    """It comes from another key than the record, so the record's revision stays."""
    before, after = by_id(shown("a1", address="")), by_id(shown("a1"))
    assert len(changes(before, after, OutputFormat.TABLE)) == 1  # type: ignore[arg-type]


def test_one_that_left_the_filter_is_told_in_its_new_state() -> None:
    """`--state held --watch` told every release as "gone … HELD"."""
    released = shown("a1", state="RELEASED", gates={"smoke": "PASSED"})
    before = by_id(shown("a1"), shown("b2"))
    lines = changes(before, {}, OutputFormat.TABLE, by_id(released))  # type: ignore[arg-type]
    assert [line.split()[1:4] for line in lines] == [["changed", "a1", "RELEASED"], ["gone", "b2", "HELD"]]


def test_for_programs_each_line_is_an_object() -> None:
    (line,) = changes({}, by_id(shown("a1")), OutputFormat.JSON)  # type: ignore[arg-type]
    said = json.loads(line)
    assert (said["change"], said["instance"]["id"]) == ("seen", "a1")
