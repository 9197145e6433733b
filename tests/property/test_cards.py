"""Edits of taints, told without reading the old value wherever that can be: the same verdict as by reading both."""

import json
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from greenroom.core.cards import differ_only_in_taints

names = st.sampled_from(
    ['"taints":', '"taints":', '"taints" :', r'"\u0074aints":', r'"t\u0061ints":', '"other":', '"x":']
)
plain = ["[]", '["a"]', '["a","b"]', '["a]"]', r'["a\"]"]', "[ ]", '["taints"]', r'["\u0061"]', '["é"]', '["a",["b"]]']
odd = ["{}", "null", "1", "1.0", '"taints"', r'"\"taints\":[\"a\"]"']
lists = st.sampled_from([*plain, *odd])
fields = st.lists(st.tuples(names, lists), max_size=2)


@st.composite
def pairs(draw: st.DrawFn) -> tuple[str, str]:
    """Two cards that are spelled alike but for a list or two."""
    parts = [draw(fields) for _ in range(3)]
    others = [[(name, draw(st.sampled_from([said, draw(lists)]))) for name, said in part] for part in parts]
    return _card(parts), _card(others)


def _card(parts: list[list[tuple[str, str]]]) -> str:
    top, card, config = ("".join(f"{name}{said}," for name, said in part) for part in parts)
    return f'{{{top}"card_json":{{{card}"runtime_config":{{{config}"size":1}}}}}}'


def by_reading(before: str, after: str) -> bool:
    """Both read, their taints taken out, and what is left compared as text."""
    read = [_read(text) for text in (before, after)]
    if before == after or None in read:
        return before == after
    for value in read:
        value["card_json"]["runtime_config"].pop("taints", None)
    one, other = (json.dumps(value, sort_keys=True) for value in read)
    return one == other


def _read(text: str) -> Any:
    """None where a name comes twice in one object."""

    def unique(found: list[tuple[str, Any]]) -> dict[str, Any]:
        if len(dict(found)) < len(found):
            raise ValueError
        return dict(found)

    try:
        return json.loads(text, object_pairs_hook=unique)
    except ValueError:
        return None


@settings(max_examples=250, deadline=None)
@given(pairs())
@example((_card([[], [], [('"taints":', '["a"]')]]), _card([[], [], [('"taints":', '["b","c"]')]])))
@example((_card([[('"taints":', '["a"]')], [], []]), _card([[('"taints":', '["b"]')], [], []])))
@example(
    (
        _card([[], [('"taints":', '["a"]')], [(r'"\u0074aints":', '["b"]')]]),
        _card([[], [('"taints":', '["b"]')], [(r'"\u0074aints":', '["b"]')]]),
    )
)
@example(
    (
        _card([[], [('"taints":', '["a"]')], [('"taints" :', '["b"]')]]),
        _card([[], [('"taints":', '["b"]')], [('"taints" :', '["b"]')]]),
    )
)
def test_an_edit_of_taints_is_told_as_by_reading_both_values(pair: tuple[str, str]) -> None:
    before, after = pair
    assert differ_only_in_taints(before.encode(), after.encode()) == by_reading(before, after)
