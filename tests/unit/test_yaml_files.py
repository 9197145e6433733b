"""YAML files: what is said of a mistake, and where. Whole files are tried by those who read them."""

import pytest

from greenroom.yaml_files import YamlFileError, field_name, line_of, read_yaml, shown, unknown_field

TEXT = "callers:\n- name: ann\n  role:\n    odd: true\n"


@pytest.mark.parametrize(
    ("path", "line"), [((), 1), (("callers", 0, "role", "odd"), 4), (("callers", 0, "missing"), 2), (("callers", 7), 1)]
)
def test_a_mistake_has_the_line_of_the_deepest_part_that_is_there(path: tuple[object, ...], line: int) -> None:
    root, said = read_yaml(TEXT)
    assert line_of(root, path) == line
    assert said == {"callers": [{"name": "ann", "role": {"odd": True}}]}


def test_a_field_is_named_by_its_way() -> None:
    assert field_name(("callers", 0, "role")) == "callers[0].role: "
    assert field_name(()) == ""


def test_what_stands_there_is_shown_as_long_as_it_is_short() -> None:
    assert [shown(value) for value in (None, {}, [], "a")] == ["nothing", "a mapping", "a list", "'a'"]


def test_a_misspelt_field_gets_a_guess() -> None:
    assert unknown_field("rol", ["name", "role"]).endswith("(they are: name, role); did you mean 'role'?")
    assert "did you mean" not in unknown_field("colour", ["name", "role"])


@pytest.mark.parametrize("text", ["", "# nothing\n", "a: 1\na: 2\n", "[1, 2"])
def test_half_a_file_is_none(text: str) -> None:
    with pytest.raises(YamlFileError):
        read_yaml(text)
