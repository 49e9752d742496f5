"""The flags: every field of the contracts has one, with a help text; misspelt ones are refused."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence
from pathlib import Path

import pytest
from backedge.base.errors import SetupError
from backedge.offline.batch_file import Shard
from backedge.offline.command import command as offline
from backedge.offline.command_flags import Command, read_command
from backedge.offline.contracts import GenerationOptions, ModelLoadConfig, VlmPreprocessOptions
from click import UsageError
from click.testing import CliRunner

from tests.parsers.chat_templates import build_template
from tests.support import TINY_MODEL

NEEDED = ("--input", "in.jsonl", "--output", "out.jsonl", "--model", "m")
FIELDS = [
    field
    for contract in (ModelLoadConfig, VlmPreprocessOptions, GenerationOptions)
    for field in dataclasses.fields(contract)
    if field.name != "vlm"
]
# A value other than the default for every flag, and the field's value.
GIVEN = {
    "model": (["m"], "m"),
    "backend": (["replay"], "replay"),
    "dtype": (["float32"], "float32"),
    "revision": (["main"], "main"),
    "trust_remote_code": ([], True),
    "max_model_len": (["64"], 64),
    "chat_template": (["t.jinja"], "t.jinja"),
    "postprocess_parsers": (["native"], "native"),
    "tokenizer_module": (["own"], "own"),
    "tokenizer_class": (["Own"], "Own"),
    "tool_parser_plugin": (["own.py"], "own.py"),
    "lora": (["own=adapters/own"], {"own": "adapters/own"}),
    "engine_args": (["a=1", "b=x", 'c={"d": [null]}', "e=f=g"], None),
    "fallback_backend": (["hf"], "hf"),
    "max_pixels": (["9"], 9),
    "min_pixels": (["3"], 3),
    "do_resize": ([], True),
    "image_hosts": (["images.example", "10.0.0.0/8"], ["images.example", "10.0.0.0/8"]),
    "max_new_tokens": (["5"], 5),
    "temperature": (["0.5"], 0.5),
    "top_p": (["0.9"], 0.9),
    "top_k": (["-1"], -1),
    "min_p": (["0.1"], 0.1),
    "presence_penalty": (["-1.5"], -1.5),
    "frequency_penalty": (["0.5"], 0.5),
    "repetition_penalty": (["1.5"], 1.5),
    "logit_bias": (["7=-1.5"], {"7": -1.5}),
    "min_tokens": (["3"], 3),
    "ignore_eos": ([], True),
    "seed": (["7"], 7),
    "n": (["2"], 2),
    "stop": (["a", "-b"], ["a", "-b"]),
    "stop_token_ids": (["1", "2"], [1, 2]),
    "include_stop": ([], True),
    "logprobs": (["3"], 3),
    "truncate_prompt_tokens": (["50"], 50),
    "chat_template_kwargs": (["enable_thinking=true"], {"enable_thinking": True}),
    "message": ([], True),
    "tool_call_parser": (["hermes"], "hermes"),
    "reasoning_parser": (["qwen3"], "qwen3"),
    "malformed_calls": (["repair"], "repair"),
    "structural_tag_scope": (["auto"], "auto"),
}
ENGINE_ARGS = {"a": 1, "b": "x", "c": {"d": [None]}, "e": "f=g"}


def flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def parse_command(arguments: Sequence[str]) -> Command:
    context = offline.make_context("offline", list(arguments), **offline.context_settings)
    return read_command(context.params)


@pytest.mark.parametrize("name", GIVEN)
def test_every_flag_has_a_help_text(name: str) -> None:
    shown = CliRunner().invoke(offline, ["--help"]).output
    assert re.search(rf"^  {flag(name)}\b.*(?:  +|\n {{6,}})\w", shown, re.MULTILINE)


def test_every_field_has_a_flag() -> None:
    assert set(GIVEN) == {field.name for field in FIELDS}


@pytest.mark.parametrize("name", GIVEN)
def test_every_flag_reaches_its_field_and_the_settings(name: str) -> None:
    values, expected = GIVEN[name]
    arguments = [f"{flag(name)}={value}" for value in values] or [flag(name)]
    command = parse_command([*NEEDED, *arguments])
    parts = (command.load, command.load.vlm, command.options)
    [owner] = [part for part in parts if hasattr(part, name)]
    found = getattr(owner, name)
    assert found == (ENGINE_ARGS if name == "engine_args" else expected)
    assert command.settings[flag(name)] == found


def test_without_flags_there_are_the_defaults() -> None:
    command = parse_command(NEEDED)
    assert command.load == ModelLoadConfig("m")
    assert command.options == GenerationOptions()
    assert (command.shard, command.plugins, command.models) == (Shard(), [], ["m"])
    assert not command.raw


def test_other_flags() -> None:
    more = ["--shard", "2/8", "--plugin", "json_stop", "--served-model-name", "a", "--raw"]
    command = parse_command([*NEEDED, *more, "--served-model-name", "b"])
    assert (command.shard, command.plugins) == (Shard(2, 8), ["json_stop"])
    assert (command.models, command.raw) == (["a", "b"], True)
    assert command.settings["--shard"] == "2/8"


def test_flags_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BACKEDGE_OFFLINE_TOP_P", "0.5")
    monkeypatch.setenv("BACKEDGE_OFFLINE_INCLUDE_STOP", "1")
    command = parse_command(NEEDED)
    assert (command.options.top_p, command.options.include_stop) == (0.5, True)
    assert parse_command([*NEEDED, "--top-p", "0.6"]).options.top_p == 0.6


def test_a_parser_s_name_asks_for_a_message() -> None:
    assert parse_command([*NEEDED, "--tool-call-parser", "hermes"]).options.message


def test_auto_is_what_the_model_writes():
    words = [word if word != "m" else str(TINY_MODEL) for word in NEEDED]
    auto = ("--tool-call-parser", "auto", "--reasoning-parser", "auto")
    options = parse_command([*words, *auto]).options
    assert (options.tool_call_parser, options.reasoning_parser) == ("hermes", "qwen3")


@pytest.mark.parametrize(
    ("backend", "kind", "name"),
    [
        ("sglang", "native", "llama3"),
        ("sglang", "linear", "llama3_json"),
        ("sglang", "auto", "llama3_json"),
        ("vllm", "native", "llama3_json"),
        ("hf", "native", "llama3_json"),
    ],
)
def test_auto_takes_the_engines_name_if_its_own_parsers_parse(
    backend: str, kind: str, name: str, tmp_path: Path
) -> None:
    template = tmp_path / "llama.jinja"
    template.write_text(build_template("llama3_json"))
    words = [word if word != "m" else str(TINY_MODEL) for word in NEEDED]
    words += ["--backend", backend, "--postprocess-parsers", kind]
    words += ["--tool-call-parser", "auto", "--chat-template", str(template)]
    assert parse_command(words).options.tool_call_parser == name


def test_a_folder_is_the_same_from_everywhere(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path_factory.mktemp("model")
    monkeypatch.chdir(folder.parent)
    near = parse_command([*NEEDED[:-1], folder.name])
    assert near.settings["--model"] == str(folder)
    assert parse_command([*NEEDED[:-1], str(folder)]).settings["--model"] == str(folder)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["--temprature", "1"],
            "No such option '--temprature'. (Did you mean one of: '--chat-template', '--temp",
        ),
        (["--max-tokens=5"], "No such option '--max-tokens'."),
        (
            ["--tool-call", "hermes"],
            "No such option '--tool-call'. Did you mean '--tool-call-parser'?",
        ),
        (["--temperature", "hot"], "value for '--temperature': 'hot' is not a valid float"),
        (["--temperature", "-1"], "--temperature: `temperature` must be a number"),
        (["--backend", "vlm"], "value for '--backend': 'vlm' is not one of 'hf', 'vllm'"),
        (["--shard", "9/8"], "value for '--shard': '9/8' is not a shard; write 2/8"),
        (["--shard", "0/8"], "value for '--shard': '0/8' is not a shard"),
        (["--shard", "2"], "value for '--shard': '2' is not a shard"),
        (["--engine-args", "x"], "value for '--engine-args': 'x' is not NAME=VALUE"),
        (["--engine-args", "=1"], "value for '--engine-args': '=1' is not NAME=VALUE"),
        (["--min-pixels=9", "--max-pixels=3"], "--min-pixels: `vlm.min_pixels` must be at most"),
        (["--stop", ""], "--stop: `stop` must be one or more non-empty strings"),
    ],
)
def test_bad_flags_are_refused(arguments: list[str], message: str) -> None:
    with pytest.raises((SetupError, UsageError)) as caught:
        parse_command([*NEEDED, *arguments])
    error = caught.value
    said = error.format_message() if isinstance(error, UsageError) else str(error)
    assert message in said


def test_missing_flags_are_refused() -> None:
    with pytest.raises(UsageError, match="model"):
        parse_command(NEEDED[:-2])
