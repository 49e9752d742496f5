"""What the light edge routes, and which edge is chosen."""

import argparse
import asyncio
import importlib.util
import json

import pytest
from backedge.frontend import main
from backedge.frontend.edges.huggingface import HuggingFacePrompts
from backedge.frontend.edges.prompt_preprocessor import PromptPreprocessor
from backedge.frontend.factory import advertised_tokenizer
from backedge.frontend.parser_names import (
    FrontendParsers,
    Native,
    configured_names,
    parser_names,
    read_worker_card,
)
from backedge.frontend.request.guided_decoding import guided_decoding
from backedge.frontend.request.postprocess_params import build_postprocess_params
from backedge.frontend.request.sampling import build_preprocessed_request, read_sampling
from backedge.frontend.runtime.prompt_queue import PromptQueue
from backedge.parsers.base import ParserNames
from backedge.parsers.errors import RequestError, UnknownParserError
from backedge.postprocess.messages import KEY, WorkerCard, encode
from backedge.tokenization import selection as backends
from backedge.tokenization.flags import TokenizerSelection
from backedge.tokenization.model_files import ModelFiles

from tests.support import TINY_MODEL

FILES = ModelFiles(TINY_MODEL)
PARAMETERS = {"type": "object", "properties": {"a": {"type": "integer"}}}
TOOL = {"type": "function", "function": {"name": "f", "parameters": PARAMETERS}}
BARE = {"type": "function", "function": {"name": "bare"}}
EMPTY = {
    "type": "function",
    "function": {"name": "e", "parameters": {"type": "object", "additionalProperties": False}},
}
NAMED = {"type": "function", "function": {"name": "f"}}


def request(**fields):
    return {"model": "m", "messages": [{"role": "user", "content": "hi"}], **fields}


def preprocessed(fields, prompt=(1, 2, 3), context_length=100):
    fields = request(**fields)
    return build_preprocessed_request(
        fields, list(prompt), FILES, context_length, guided_decoding(fields)
    )


def calls(*named, **more):
    of_call = [
        {"properties": {"name": {"type": "string", "enum": [name]}, "parameters": parameters},
         "required": ["name", "parameters"]}
        for name, parameters in named
    ]  # fmt: skip
    return {
        "json": {
            "type": "array",
            "minItems": 1,
            "items": {"type": "object", "anyOf": of_call},
            **more,
        }
    }


def test_nothing_asked_for_is_what_dynamo_sends():
    assert preprocessed({}) == {
        "model": "m",
        "token_ids": [1, 2, 3],
        "stop_conditions": {
            "max_tokens": 97,
            "stop": [],
            "stop_token_ids": [551],
            "min_tokens": 0,
            "ignore_eos": False,
            "max_thinking_tokens": None,
        },
        "sampling_options": {
            "n": 1,
            "seed": None,
            "presence_penalty": 0.0,
            "frequency_penalty": 0.0,
            "repetition_penalty": 1.0,
            "temperature": 0.0,  # the model's own, of generation_config.json
            "top_p": 1.0,
            "top_k": None,
            "min_p": None,
        },
        "output_options": {"logprobs": None, "prompt_logprobs": None, "skip_special_tokens": True},
        "eos_token_ids": [553],
        "annotations": [],
        "routing": None,
    }


# request, group, field, value
FIELDS = [
    ({"max_tokens": 5}, "stop_conditions", "max_tokens", 5),
    ({"max_tokens": 5, "max_completion_tokens": 6}, "stop_conditions", "max_tokens", 6),
    ({"stop": "a"}, "stop_conditions", "stop", ["a"]),
    ({"stop": ["a", "b"]}, "stop_conditions", "stop", ["a", "b"]),
    ({"stop_token_ids": [7, 551, 7]}, "stop_conditions", "stop_token_ids", [7, 551]),
    ({"ignore_eos": True}, "stop_conditions", "stop_token_ids", []),
    ({"thinking_token_budget": 9}, "stop_conditions", "max_thinking_tokens", 9),
    ({"temperature": 0.5}, "sampling_options", "temperature", 0.5),
    ({"top_k": 0}, "sampling_options", "top_k", 0),
    ({"top_k": 20}, "sampling_options", "top_k", 20),
    ({"n": 2}, "sampling_options", "n", 2),
    ({"seed": 3}, "sampling_options", "seed", 3),
    ({"logprobs": True}, "output_options", "logprobs", 0),
    ({"logprobs": True, "top_logprobs": 4}, "output_options", "logprobs", 4),
    ({"skip_special_tokens": False}, "output_options", "skip_special_tokens", False),
]


@pytest.mark.parametrize(("fields", "group", "field", "value"), FIELDS)
def test_what_is_asked_for_is_routed(fields, group, field, value):
    assert preprocessed(fields)[group][field] == value


def test_a_prompt_without_room_for_an_answer_is_refused():
    with pytest.raises(RequestError, match="up to 2 tokens"):
        preprocessed({}, context_length=3)


def test_a_worker_that_does_not_say_its_context_sets_the_limit_itself():
    assert preprocessed({}, context_length=None)["stop_conditions"]["max_tokens"] is None


# request, guided decoding
GUIDED = [
    ({}, None),
    ({"response_format": {"type": "text"}}, None),
    ({"response_format": {"type": "json_object"}}, {"json": {"type": "object"}}),
    (
        {"response_format": {"type": "json_schema", "json_schema": {"schema": PARAMETERS}}},
        {"json": PARAMETERS},
    ),
    (
        {"guided_regex": "a+", "guided_whitespace_pattern": " "},
        {"regex": "a+", "whitespace_pattern": " "},
    ),
    ({"tools": [TOOL]}, None),
    ({"tools": [TOOL], "tool_choice": "auto"}, None),
    ({"tools": [TOOL], "tool_choice": NAMED}, {"json": PARAMETERS}),
    ({"tools": [EMPTY], "tool_choice": {"function": {"name": "e"}}}, {"regex": r"\{\}"}),
    ({"tools": [TOOL], "tool_choice": "required"}, calls(("f", PARAMETERS))),
    (
        {"tools": [BARE], "tool_choice": "required"},
        calls(("bare", {"type": "object", "properties": {}})),
    ),
    (
        {"tools": [TOOL], "tool_choice": "required", "parallel_tool_calls": False},
        calls(("f", PARAMETERS), maxItems=1),
    ),
    (
        {"tools": [TOOL], "tool_choice": NAMED, "response_format": {"type": "json_object"}},
        {"json": PARAMETERS},
    ),
]


@pytest.mark.parametrize(("fields", "guided"), GUIDED)
def test_guided_decoding(fields, guided):
    assert guided_decoding(fields) == guided
    assert preprocessed(fields)["sampling_options"].get("guided_decoding") == guided


def test_definitions_of_tools_move_to_the_top_of_the_schema():
    tool = {"function": {"name": "d", "parameters": {"$defs": {"x": {}}, "type": "object"}}}
    schema = guided_decoding({"tools": [tool], "tool_choice": "required"})
    assert schema == calls(("d", {"type": "object"}), **{"$defs": {"x": {}}})
    assert "$defs" in tool["function"]["parameters"], "the request is left as it is"
    other = {"function": {"name": "o", "parameters": {"$defs": {"x": {"type": "string"}}}}}
    with pytest.raises(RequestError, match=r"tools\[1\].function.parameters.\$defs.x"):
        guided_decoding({"tools": [tool, other], "tool_choice": "required"})


def test_a_forced_call_leaves_no_room_for_another_constraint():
    with pytest.raises(RequestError, match="guided_regex"):
        guided_decoding({"tools": [TOOL], "tool_choice": "required", "guided_regex": "a"})


@pytest.mark.parametrize(
    ("choice", "json_calls"), [("auto", False), ("required", True), (NAMED, True)]
)
def test_the_worker_is_told_the_syntax_of_forced_calls(choice, json_calls):
    fields = {"tools": [TOOL], "tool_choice": choice}
    params = build_postprocess_params(
        "1", request(**fields), preprocessed(fields), read_sampling(request(**fields))
    )
    assert params.parser.json_calls is json_calls


def preprocess(fields, *, reasons=True, runtime_config=None):
    prompts = HuggingFacePrompts(FILES.prompt_token_ids, runtime_config or {}, reasons=reasons)
    return asyncio.run(
        PromptPreprocessor(prompts, FILES, PromptQueue(threads=1), None).preprocess(
            request(**fields)
        )
    )


OFF = {"enable_thinking": False}
# request, what the engine is told of reasoning
HINTS = [
    ({}, {"reasoning_parser_kwargs": {"chat_template_kwargs": {}}}),
    (
        {"chat_template_args": OFF},
        {"reasoning_ended": True, "reasoning_parser_kwargs": {"chat_template_kwargs": OFF}},
    ),
    (
        {"include_reasoning": False},
        {"reasoning_ended": True, "reasoning_parser_kwargs": {"chat_template_kwargs": {}}},
    ),
]


@pytest.mark.parametrize(("fields", "hints"), HINTS)
def test_the_engine_is_told_of_reasoning(fields, hints):
    made = preprocess(fields)
    assert made["extra_args"] == hints
    assert {name: made[name] for name in hints} == hints
    assert "extra_args" not in preprocess(fields, reasons=False)


def test_the_deployments_thinking_mode_is_the_default():
    default = {"runtime_data": {"default_thinking_mode": "disabled"}}
    quiet = preprocess({"chat_template_args": OFF})["token_ids"]
    assert preprocess({}, runtime_config=default)["token_ids"] == quiet
    assert (
        preprocess({"chat_template_args": {"enable_thinking": True}}, runtime_config=default)[
            "token_ids"
        ]
        != quiet
    )


def test_tools_that_must_not_be_called_are_not_shown():
    assert (
        preprocess({"tools": [TOOL], "tool_choice": "none"})["token_ids"]
        == preprocess({})["token_ids"]
    )


def flags(tool_call=None, reasoning=None):
    return argparse.Namespace(tool_call_parser=tool_call, reasoning_parser=reasoning)


CAPABILITY = WorkerCard(
    engine="vllm", engine_version="1", tool_call_parser="hermes", reasoning_parser="of_tomorrow"
)
# flags, card, parsers
NAMES = [
    (flags("hermes", "qwen3"), {}, FrontendParsers(ParserNames("hermes", "qwen3"))),
    (flags(), {"tool_call_parser": "hermes"}, FrontendParsers(ParserNames("hermes"))),
    (
        flags("qwen3_coder"),
        {"tool_call_parser": "hermes"},
        FrontendParsers(ParserNames("qwen3_coder")),
    ),
    (
        flags("qwen3_coder"),
        {"runtime_data": {KEY: encode(CAPABILITY)}},
        FrontendParsers(ParserNames("hermes")),
    ),
    (
        flags("hermes"),
        {"runtime_data": {KEY: "no message"}},
        FrontendParsers(ParserNames("hermes")),
    ),
]


@pytest.mark.parametrize(("given", "card", "names"), NAMES)
def test_the_parsers_of_a_model(given, card, names):
    assert parser_names(configured_names(given, card, read_worker_card(card))) == names


def test_a_name_that_no_linear_parser_has_is_refused():
    with pytest.raises(UnknownParserError, match="hermes"):
        parser_names(configured_names(flags("nonsense"), {}, None))


def check_native(names, also_known):
    if names.tool_call not in (None, "hermes", "of_its_own"):
        raise UnknownParserError("--tool-call-parser", names.tool_call, also_known)


NATIVE = Native(check_native, lambda: ["hermes", "of_its_own"], lambda: ["qwen3", "of_tomorrow"])
OF_A_WORKER = {"runtime_data": {KEY: encode(CAPABILITY)}}
# flags, card, kind, parsers
WITH_AN_ENGINE = [
    (flags("hermes", "qwen3"), {}, "auto", FrontendParsers(ParserNames("hermes", "qwen3"))),
    (
        flags("hermes", "qwen3"),
        {},
        "native",
        FrontendParsers(ParserNames("hermes", "qwen3"), native=True),
    ),
    (flags("of_its_own"), {}, "auto", FrontendParsers(ParserNames("of_its_own"), native=True)),
    (
        flags(),
        OF_A_WORKER,
        "auto",
        FrontendParsers(ParserNames("hermes", "of_tomorrow"), native=True),
    ),
    (
        flags(),
        OF_A_WORKER,
        "linear",
        FrontendParsers(ParserNames("hermes", "of_tomorrow"), native=True),
    ),
]


@pytest.mark.parametrize(("given", "card", "kind", "names"), WITH_AN_ENGINE)
def test_the_parsers_of_a_model_where_an_engines_are_there(given, card, kind, names):
    assert (
        parser_names(configured_names(given, card, read_worker_card(card)), kind, NATIVE) == names
    )


def test_a_name_that_nobody_has_is_refused_with_ours_among_the_known():
    with pytest.raises(UnknownParserError, match="qwen3_coder"):
        parser_names(configured_names(flags("nonsense"), {}, None), "auto", NATIVE)


LINEAR = ["--postprocess-parsers", "linear"]
# arguments, engines that are there, back end, whose command line, what is left for Dynamo
CHOICES = [
    ([], "vllm sglang", None, "vllm", []),
    ([], "sglang", None, "sglang", []),
    ([], "", None, "sglang", []),
    (["--router-mode", "kv"], "vllm", None, "vllm", ["--router-mode", "kv"]),
    (["--tokenizer-backend", "huggingface", "--x"], "vllm", "huggingface", "sglang", ["--x"]),
    (["--tokenizer-backend", "sglang", "--x"], "vllm sglang", "sglang", "sglang", ["--x"]),
    (
        ["--tokenizer-backend", "sglang", "--postprocess-parsers", "native"],
        "sglang",
        "sglang",
        "sglang",
        [],
    ),
    (["--tokenizer-backend", "vllm"], "vllm", "vllm", "vllm", []),
    (["--dyn-chat-processor", "vllm"], "vllm", "vllm", "vllm", []),
    (LINEAR, "vllm", None, "vllm", LINEAR),
    (LINEAR, "", None, "sglang", []),
]


@pytest.fixture
def installed(monkeypatch):
    def install(engines):
        monkeypatch.setattr(
            importlib.util,
            "find_spec",
            lambda package: object() if package in engines.split() else None,
        )

    return install


@pytest.mark.parametrize(("arguments", "engines", "backend", "processor", "left"), CHOICES)
def test_what_is_asked_of_a_frontend(installed, arguments, engines, backend, processor, left):
    installed(engines)
    choice = main.choose(arguments)
    assert (choice.tokenizer.backend, choice.processor, choice.arguments) == (
        backend,
        processor,
        left,
    )


@pytest.mark.parametrize(
    "arguments",
    [
        ["--dyn-chat-processor", "sglang"],
        ["--dyn-chat-processor", "vllm", "--tokenizer-backend", "huggingface"],
        ["--tokenizer-backend", "huggingface", "--postprocess-parsers", "native"],
        ["--tokenizer-backend", "sglang"],
    ],
)
def test_a_choice_that_is_none_ends_the_process(installed, arguments):
    installed("vllm")
    with pytest.raises(SystemExit, match="--"):
        main.choose(arguments)


SGLANG = WorkerCard(engine="sglang", engine_version="1")
# flag, what the worker says, engines that are there, back end
BACKENDS = [
    (None, CAPABILITY, "vllm sglang", "vllm"),
    (None, SGLANG, "vllm sglang", "sglang"),
    (None, SGLANG, "vllm", "huggingface"),
    (None, WorkerCard(engine="replay", engine_version="1"), "vllm sglang", "huggingface"),
    (None, None, "vllm sglang", "vllm"),
    (None, None, "sglang", "sglang"),
    (None, None, "", "huggingface"),
    ("huggingface", SGLANG, "vllm sglang", "huggingface"),
    ("sglang", CAPABILITY, "vllm sglang", "sglang"),
]


@pytest.mark.parametrize(("flag", "worker_card", "engines", "backend"), BACKENDS)
def test_the_edge_of_a_model(installed, flag, worker_card, engines, backend):
    installed(engines)
    engine = None if worker_card is None else worker_card.engine
    worker = advertised_tokenizer(worker_card)
    assert backends.select_tokenizer(TokenizerSelection(flag), worker, engine)[0] == backend


def test_everything_routed_can_be_sent():
    assert json.dumps(preprocess({"tools": [TOOL], "tool_choice": "required"}))
