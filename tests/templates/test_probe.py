"""What is read from a model's files about its parsers."""

from __future__ import annotations

import json

import pytest
from backedge.base.errors import SetupError
from backedge.parsers.detection import PROBE_NAME
from backedge.templates.auto_parsers import probe_template, read_added_tokens, read_evidence

from tests.parsers.chat_templates import build_template

# The prompt opens with reasoning unless a variable says no.
THINKING = (
    "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>"
    "{% if enable_thinking is not defined or enable_thinking %}<think>{% endif %}{% endif %}"
)


def test_the_turn_is_what_the_model_would_write() -> None:
    [turn] = probe_template(build_template("hermes"), {}).turns
    assert turn.startswith("<tool_call>\n{")
    assert turn.endswith("}\n</tool_call>")


def test_a_marker_that_the_prompt_has_begun_stays_whole() -> None:
    source = build_template("hermes").replace("<|assistant|>{%", "<|assistant|><think>{%")
    [turn] = probe_template(source, {}).turns
    assert turn.startswith("<tool_call>")


def test_ids_that_templates_print_are_tried() -> None:
    turns = probe_template(build_template("kimi_k2"), {}).turns
    assert any(f"functions.{PROBE_NAME}:0" in turn for turn in turns)


def test_a_template_that_wants_arguments_as_text_gets_text() -> None:
    call = "{{ '<tool_call>' + m.tool_calls[0].function.arguments }}" + PROBE_NAME
    source = f"{{% for m in messages %}}{{{{ m.content }}}}{{% if m.tool_calls %}}{call}"
    [turn] = probe_template(source + "{% endif %}{% endfor %}", {}).turns
    assert json.loads(turn.removeprefix("<tool_call>").removesuffix(PROBE_NAME))["days"] == 3


def test_a_template_that_raises_writes_nothing() -> None:
    evidence = probe_template("{{ raise_exception('no') }}{{ tools }}", {})
    assert (evidence.turns, evidence.prompts) == ((), ())


def test_a_variable_counts_as_a_switch_if_it_changes_the_prompt() -> None:
    evidence = probe_template(THINKING, {})
    assert evidence.switches == {"enable_thinking": True}
    assert [prompt.endswith("<think>") for prompt in evidence.prompts] == [True, True, False]
    # Read, but not for the prompt.
    assert probe_template("{% set thinking = thinking %}{{ messages }}", {}).switches == {}


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("tokenizer.json", {"added_tokens": [{"id": 1, "content": "<tool_call>"}]}),
        ("tokenizer_config.json", {"added_tokens_decoder": {"1": {"content": "<tool_call>"}}}),
        ("tekken.json", {"special_tokens": [{"rank": 1, "token_str": "<tool_call>"}]}),
    ],
)
def test_added_tokens(tmp_path, name, content) -> None:
    (tmp_path / name).write_text(json.dumps(content))
    assert read_added_tokens(tmp_path) == {"<tool_call>": 1}
    assert read_evidence(tmp_path).tokens == {"<tool_call>"}


def test_a_broken_file_is_named(tmp_path) -> None:
    (tmp_path / "tokenizer.json").write_text("{")
    with pytest.raises(SetupError, match=str(tmp_path)):
        read_evidence(tmp_path)


def test_a_template_for_tools_is_preferred(tmp_path) -> None:
    templates = [
        {"name": "default", "template": "{{ messages }}"},
        {"name": "tool_use", "template": build_template("hermes")},
    ]
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"chat_template": templates}))
    assert read_evidence(tmp_path).takes_tools


def test_a_given_template_comes_first_and_must_exist(tmp_path) -> None:
    given = tmp_path / "given.jinja"
    with pytest.raises(SetupError, match=r"given\.jinja"):
        read_evidence(tmp_path, str(given))
    given.write_text(build_template("hermes"))
    assert read_evidence(tmp_path, str(given)).turns
