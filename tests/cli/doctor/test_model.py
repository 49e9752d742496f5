"""What doctor says of a model's files."""

from __future__ import annotations

import json

import pytest
from backedge.cli.doctor.model import (
    check_model,
    names_for_stock,
    read_model,
    suggest_flags,
)
from backedge.parsers.base import ParserNames

from tests.parsers.chat_templates import build_template
from tests.support import TINY_MODEL


def write_model(folder, template=None, tokens=(), eos=None, **config):
    """Write the small files of a model, and return what doctor reads of them."""
    if template is not None:
        (folder / "chat_template.jinja").write_text(template)
    added = [{"id": number, "content": token} for number, token in enumerate(tokens)]
    (folder / "tokenizer.json").write_text(json.dumps({"added_tokens": added}))
    (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": eos}))
    (folder / "config.json").write_text(json.dumps(config))
    return read_model(str(folder), None, None)


def by_topic(facts):
    return {finding.topic: finding for finding in check_model(facts)}


def test_a_model_that_fits() -> None:
    facts = read_model(str(TINY_MODEL), None, None)
    assert {finding.severity for finding in check_model(facts)} == {"ok"}
    assert suggest_flags(facts) == "--tool-call-parser hermes --reasoning-parser qwen3"
    assert facts.resolve(ParserNames("auto", "other")) == ParserNames("hermes", "other")


def test_no_template_is_an_error_unless_mistrals_tokenizer_makes_prompts(tmp_path) -> None:
    facts = write_model(tmp_path)
    assert by_topic(facts)["chat template"].severity == "error"
    assert suggest_flags(facts) == ""
    special = [{"rank": 1, "token_str": token} for token in ("[TOOL_CALLS]", "[ARGS]", "[CALL_ID]")]
    (tmp_path / "tekken.json").write_text(json.dumps({"special_tokens": special}))
    facts = read_model(str(tmp_path), None, None)
    assert by_topic(facts)["chat template"].severity == "note"
    assert facts.names.tool_call == "mistral"


def test_a_description_that_no_table_holds_is_read_by_transformers(tmp_path) -> None:
    fields = {"tool_calls": {"open_pattern": "<(?=a)", "close": ">"}, "content": {}}
    config = json.dumps({"response_template": {"fields": fields}})
    (tmp_path / "tokenizer_config.json").write_text(config)
    facts = write_model(tmp_path, "{{ messages }}")
    found = by_topic(facts)["tool calls"]
    assert (found.severity, found.fix) == ("ok", "--tool-call-parser template")
    assert found.message.startswith("template, by transformers' own parser in the pool: ")
    assert "'tool_calls'" in found.message
    assert suggest_flags(facts) == "--tool-call-parser template"
    assert by_topic(facts)["reasoning"].severity == "note"


def test_a_template_without_tools_is_a_note(tmp_path) -> None:
    found = by_topic(write_model(tmp_path, "{{ messages }}"))
    assert found["tool calls"].severity == "note"
    assert found["tool calls"].fix == "leave --tool-call-parser out"


def test_what_does_not_decide_is_a_warning_with_the_candidates(tmp_path) -> None:
    found = by_topic(write_model(tmp_path, build_template("hermes") + "</think>"))["reasoning"]
    assert found.severity == "warning"
    assert "deepseek_r1 has markers" in found.message


@pytest.mark.parametrize(
    ("tokens", "severity"),
    [(("<tool_call>", "</tool_call>"), "ok"), (("<s>",), "note"), ((), "note")],
)
def test_markers_that_are_tokens(tmp_path, tokens, severity) -> None:
    facts = write_model(tmp_path, build_template("hermes"), tokens)
    assert by_topic(facts)["markers"].severity == severity


@pytest.mark.parametrize(
    ("eos", "severity"), [(1, "ok"), ([0, 1], "ok"), (0, "warning"), (None, None)]
)
def test_the_token_behind_an_answer_must_end_generation(tmp_path, eos, severity) -> None:
    template = build_template("hermes").replace("{% else %}", "<|end|>{% else %}")
    found = by_topic(write_model(tmp_path, template, ("<s>", "<|end|>"), eos)).get("end of answers")
    assert (found and found.severity) == severity
    if found and severity == "warning":
        assert "<|end|> (token 1)" in found.message


def test_a_marker_of_the_format_may_come_last(tmp_path) -> None:
    tokens = ("<s>", "</tool_call>")
    assert "end of answers" not in by_topic(
        write_model(tmp_path, build_template("hermes"), tokens, eos=0)
    )


@pytest.mark.parametrize(("length", "severity"), [(4096, "ok"), (None, "note")])
def test_context(tmp_path, length, severity) -> None:
    config = {"max_position_embeddings": length} if length else {}
    found = by_topic(write_model(tmp_path, "{{ messages }}", **config))["context"]
    assert found.severity == severity


def test_names_of_stock_frontends(tmp_path) -> None:
    [finding] = names_for_stock(read_model(str(TINY_MODEL), None, None))
    assert "--dyn-tool-call-parser hermes --dyn-reasoning-parser qwen3" in finding.message
    facts = write_model(tmp_path, build_template("deepseek_v31"))
    [finding] = names_for_stock(facts)
    assert "--dyn-tool-call-parser deepseek_v3_1" in finding.message
    # Rust has no parser of xLAM's.
    assert list(names_for_stock(write_model(tmp_path, build_template("xlam")))) == []
