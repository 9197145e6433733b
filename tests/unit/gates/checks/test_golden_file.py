"""Golden files: what they say, and that each mistake is told by line and field."""

import json
import re
from pathlib import Path

import pytest

from greenroom.gates.checks.golden_file import GoldenFile, load_golden
from greenroom.yaml_files import YamlFileError

DOCUMENTED = Path(__file__).parents[4] / "docs" / "built-in-checks.md"
GOOD = """
seed: 7
max_tokens: 16
token_ids_from: vllm
extra: {chat_template_kwargs: {enable_thinking: false}}
prompts:
  - name: capital
    prompt: What is the capital of France?
    text: Paris
  - messages:
      - {role: system, content: Count.}
      - {role: user, content: "1"}
    regex: '^2\\b'
    max_tokens: 4
  - prompt: more
    token_ids: [1, 2]
"""


def loaded(tmp_path: Path, text: str) -> GoldenFile:
    file = tmp_path / "golden.yaml"
    file.write_text(text)
    return load_golden(file)


def test_a_file_is_read(tmp_path: Path) -> None:
    golden = loaded(tmp_path, GOOD)
    assert (golden.seed, golden.max_tokens) == (7, 16)
    assert golden.token_ids_from.asking == {"return_token_ids": True}
    assert [name for name, _ in golden.named()] == ["capital", "2", "3"]
    assert golden.prompts[0].chat == [{"role": "user", "content": "What is the capital of France?"}]
    assert golden.prompts[1].chat[0] == {"role": "system", "content": "Count."}
    assert golden.prompts[2].token_ids == (1, 2)


def test_json_is_read_too(tmp_path: Path) -> None:
    golden = loaded(tmp_path, json.dumps({"prompts": [{"prompt": "a", "text": "b"}]}, indent=1))
    assert golden.prompts[0].text == "b"
    assert golden.token_ids_from.asking == {"nvext": {"extra_fields": ["completion_token_ids"]}}


def test_the_documented_file_is_one(tmp_path: Path) -> None:
    (block,) = re.findall(r"```yaml\n(seed:.*?)```", DOCUMENTED.read_text(), re.DOTALL)
    golden = loaded(tmp_path, block)
    assert [name for name, _ in golden.named()] == ["capital", "2", "ids"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "is empty"),
        ("a: [", "line 1, column 5: is no YAML"),
        ("prompts: []", "line 1: prompts: is empty"),
        ("seed: 1", "line 1: prompts: is not given"),
        ("prompt: []", "line 1: prompt: is not a field that is known here"),
        ("prompts:\n- prompt: a\n  txt: b", "line 3: prompts[0].txt: is not a field that is known here"),
        ("prompts:\n- prompt: a\n  txt: b", "did you mean 'text'?"),
        ("seeds: 1\nprompts: [{prompt: a, text: b}]", "line 1: seeds: is not a field that is known here"),
        ("prompts:\n- prompt: a\n", "line 2: prompts[0]: needs one of text, regex and token_ids, and has none"),
        ("prompts:\n- {prompt: a, text: b, regex: c}", "and has text and regex"),
        ("prompts:\n- text: a\n", "line 2: prompts[0]: needs prompt or messages, and only one of them"),
        ("prompts:\n- {prompt: a, text: b, messages: [{role: user, content: c}]}", "and only one of them"),
        ("prompts:\n- prompt: a\n  regex: '('", "line 2: prompts[0]: has a regex that is none"),
        ("prompts:\n- prompt: a\n  regex: 'a{99999999999}'", "line 2: prompts[0]: has a regex that is none"),
        (f"prompts:\n- prompt: a\n  regex: '{'(' * 3000}{')' * 3000}'", "line 2: prompts[0]: has a regex that is none"),
        ("prompts: [{prompt: a, text: b}]\nextra: {day: 2026-01-01}", "line 2: extra: cannot be said in JSON"),
        ("prompts: [{prompt: a, text: b}]\nextra: &a {a: *a}", "line 2: extra: cannot be said in JSON"),
        ("prompts: [{prompt: a, text: b}]\nextra: {top_p: .nan}", "line 2: extra: cannot be said in JSON"),
        ("prompts:\n- prompt: a\n  text: 7", "line 3: prompts[0].text: 7"),
        ("prompts:\n- prompt: a\n  text: ''", "line 3: prompts[0].text: ''"),
        ("prompts:\n- prompt: a\n  token_ids: [1, x]", "line 3: prompts[0].token_ids[1]: 'x'"),
        ("prompts:\n- prompt: a\n  token_ids: []", "line 3: prompts[0].token_ids: is empty"),
        ("prompts:\n- prompt: a\n  text: b\n  max_tokens: 0", "line 4: prompts[0].max_tokens: 0"),
        (
            "prompts:\n- messages: [{role: user, text: b}]\n  text: b",
            "line 2: prompts[0].messages[0].text: is not a field that is known",
        ),
        ("token_ids_from: openai\nprompts: [{prompt: a, text: b}]", "line 1: token_ids_from: 'openai'"),
        ("extra: {seed: 1}\nprompts: [{prompt: a, text: b}]", "has extra.seed, which each request says by itself"),
        ("prompts:\n- prompt: a\n  prompt: b\n  text: c", "line 3: 'prompt' stands there twice"),
    ],
)
def test_a_mistake_is_told_by_line_and_field(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(YamlFileError) as refused:
        loaded(tmp_path, text)
    assert words in str(refused.value)
    assert "\n" not in str(refused.value)
