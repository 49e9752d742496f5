"""Bad requests, and the field that a 400 has to name.

One table for all edges and for the real stack.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, NamedTuple

from backedge.base.errors import shorten
from backedge.base.limits import MAX_SHOWN_NAME

BIG = 2**63
VOCABULARY = 560  # the example model's
USER = {"role": "user", "content": "hi"}
TOOL = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}
NAMED = {"type": "function", "function": {"name": "f"}}
FORCED: dict[str, Any] = {"tools": [TOOL], "tool_choice": "required"}


class Bad(NamedTuple):
    """A row. field: its JSON path, as in the error. fields: of the request."""

    field: str
    fields: dict[str, Any]

    @property
    def id(self) -> str:
        text = json.dumps(self.fields, default=str)
        return f"{self.field[:60]}: {text if len(text) < 60 else text[:57] + '...'}"


def optional(count: int, **bounds: int) -> dict[str, Any]:
    """Return the schema of an object with so many optional properties."""
    return {"type": "object", "properties": {f"p{n}": {} for n in range(count)}, **bounds}


def nested(levels: int) -> dict[str, Any]:
    schema: dict[str, Any] = {}
    for _ in range(levels):
        schema = {"items": schema}
    return schema


def tool(parameters: object = None, name: object = "f") -> dict[str, Any]:
    function = {"name": name} if parameters is None else {"name": name, "parameters": parameters}
    return {"type": "function", "function": function}


def make_call(arguments: object) -> dict[str, Any]:
    return {"function": {"name": "f", "arguments": json.dumps(arguments)}}


def json_schema(schema: object) -> dict[str, Any]:
    return {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}


def metadata(**options: Any) -> dict[str, Any]:
    return {"metadata": {"backedge": options}}


# Numbers: the field, and values out of its range.
NUMBERS: dict[str, list[Any]] = {
    "n": [0, -1, 129, 2**31, BIG],
    "seed": [-BIG - 1, BIG, 2**64],
    "temperature": [-0.1, 2.1, 1e308],
    "top_p": [0, -0.5, 1.5, 1e9],
    "top_k": [-2, 2**31, BIG],
    "min_p": [-0.1, 1.1],
    "presence_penalty": [-2.5, 2.5, 1e9],
    "frequency_penalty": [-2.5, 2.5, -1e9],
    "repetition_penalty": [0, -1, 2.5, 1e9],
    "max_tokens": [0, -1, 2**31, BIG],
    "max_completion_tokens": [0, -1, 2**31, BIG],
    "min_tokens": [-1, 2**31, BIG],
    "thinking_token_budget": [-1, 2**31, BIG],
    "top_logprobs": [-1, 21, 2**31],
    "prompt_logprobs": [-2, VOCABULARY + 1, BIG],
}
NOT_FINITE = [float("nan"), float("inf"), float("-inf")]
FLOATS = (
    *("temperature", "top_p", "min_p", "presence_penalty", "frequency_penalty"),
    "repetition_penalty",
)
TOKEN_IDS = [-1, VOCABULARY, 60_000_000, 2**31, 2**32, BIG, 2**64]


def numbers() -> Iterator[Bad]:
    for field, values in NUMBERS.items():
        for value in values:
            logprobs = {"logprobs": True} if field == "top_logprobs" else {}
            yield Bad(field, {field: value, **logprobs})
    for field in FLOATS:
        for value in NOT_FINITE:
            yield Bad(field, {field: value})
    for value in (-1, 2**31, BIG):
        yield Bad("nvext.max_thinking_tokens", {"nvext": {"max_thinking_tokens": value}})
    for value in TOKEN_IDS:
        yield Bad("stop[0]", {"stop": [value]})
        yield Bad("stop[1]", {"stop": [5, value]})
        yield Bad("stop_token_ids[0]", {"stop_token_ids": [value]})
        yield Bad("metadata.backedge.stop_token_ids[0]", metadata(stop_token_ids=[value]))
    yield Bad("stop", {"stop": [5] * 1025})
    yield Bad("stop_token_ids", {"stop_token_ids": [5] * 1025})
    yield Bad("metadata.backedge.stop_token_ids", metadata(stop_token_ids=[5] * 1025))
    yield Bad("min_tokens", {"min_tokens": 10, "max_tokens": 5})
    yield Bad("min_tokens", {"min_tokens": 10, "max_completion_tokens": 5})


# Types: the field, and values of other types.
TYPES: dict[str, list[Any]] = {
    **{
        name: ["x", 1.5, [], {}, True]
        for name in ("n", "seed", "top_k", "max_tokens", "min_tokens")
    },
    **{name: ["x", [], {}] for name in ("temperature", "top_p", "min_p", "repetition_penalty")},
    **{
        name: ["x", 2, [], {}]
        for name in ("stream", "logprobs", "ignore_eos", "skip_special_tokens")
    },
    **{name: ["x", 2] for name in ("parallel_tool_calls", "include_stop_str_in_output")},
    "stop": [5, {}, True],
    "tools": ["x", {}, 5],
    "tool_choice": [5, []],
    "response_format": ["x", 5, []],
    "chat_template_kwargs": ["x", 5, []],
    "stream_options": ["x", 5],
    "nvext": ["x", 5],
}


def types() -> Iterator[Bad]:
    for field, values in TYPES.items():
        for value in values:
            yield Bad(field, {field: value})
    yield Bad("stop[1]", {"stop": ["a", ""]})
    yield Bad("stop[1]", {"stop": ["a", 5]})
    yield Bad("stop", {"stop": ["a"] * 1025})
    yield Bad("stop", {"stop": ["a" * 100_001]})
    yield Bad("top_logprobs", {"top_logprobs": 2})
    yield Bad("top_logprobs", {"top_logprobs": 2, "logprobs": False})
    yield Bad("stream_options", {"stream": False, "stream_options": {"include_usage": True}})
    yield Bad("stream_options", {"stream": False, "stream_options": {}})
    yield Bad("response_format.type", {"response_format": {"type": "nonsense"}})
    yield Bad("response_format.type", {"response_format": {}})
    yield Bad("reasoning_effort", {"reasoning_effort": 5})
    yield Bad("logit_bias", {"logit_bias": {"5": -1}})
    yield Bad("chat_template", {"chat_template": "{{ 7 ** 7 ** 7 }}"})
    yield Bad("tool_choice", {"tool_choice": "sometimes", "tools": [TOOL]})
    yield Bad("tool_choice.function", {"tool_choice": {"type": "function"}, "tools": [TOOL]})


CALL = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
# 9,014 tokens: more than the 2,048 of a model's own files, not of workers with a longer context.
BEYOND_SMALL_CONTEXT = [{"role": "user", "content": "long " * 3000}]
MESSAGES: list[tuple[str, Any]] = [
    ("messages", []),
    ("messages", "x"),
    ("messages", [USER] * 8_193),
    ("messages", [{"role": "user", "content": [{"type": "text", "text": "a"}] * 8_192}]),
    ("messages", [{"role": "assistant", "tool_calls": [CALL] * 8_192}]),
    ("messages[0]", ["x"]),
    ("messages[0].role", [{"content": "x"}]),
    ("messages[0].role", [{"role": 5, "content": "x"}]),
    ("messages[0].content", [{"role": "user"}]),
    ("messages[0].content", [{"role": "user", "content": []}]),
    ("messages[0].content", [{"role": "user", "content": None}]),
    ("messages[1].content", [USER, {"role": "assistant"}]),
    ("messages[1].content", [USER, {"role": "assistant", "tool_calls": []}]),
    ("messages[1].tool_calls", [USER, {"role": "assistant", "tool_calls": "x"}]),
    *(
        (f"messages[0].content{path}", [{"role": "user", "content": content}])
        for path, content in [
            ("", 5),
            ("", {"a": 1}),
            ("[0]", [5]),
            ("[0]", [None]),
            ("[0]", [{}]),
            ("[0]", [{"type": 5}]),
            ("[0].text", [{"type": "text"}]),
            ("[1].text", [{"type": "text", "text": "a"}, {"type": "text", "text": 5}]),
            ("[0].refusal", [{"type": "refusal", "text": "a"}]),
            ("[0].image_url", [{"type": "image_url", "image_url": {"url": ""}}]),
            ("[0].video_url", [{"type": "video_url", "text": "a"}]),
            ("[0].audio_url", [{"type": "audio_url", "audio_url": {"url": 5}, "uuid": ""}]),
        ]
    ),
    *(
        (f"messages[0].tool_calls[0]{path}", [{"role": "assistant", "tool_calls": [call]}])
        for path, call in [
            ("", 5),
            (".function", {}),
            (".function", {"function": 5}),
            (".function.name", {"function": {"name": 5}}),
            (".type", {"type": "other", "function": {"name": "f", "arguments": "{}"}}),
            (".id", {"id": 5, "function": {"name": "f", "arguments": "{}"}}),
            (".function.arguments", {"function": {"name": "f", "arguments": 5}}),
            (".function.arguments", {"function": {"name": "f", "arguments": []}}),
        ]
    ),
    ("messages[0].reasoning_content", [{"role": "assistant", "reasoning_content": 5}]),
    ("messages[0].reasoning_content[0]", [{"role": "assistant", "reasoning_content": [5]}]),
    ("messages", [{"role": "user", "content": "\ud800"}]),
    ("messages", [{"role": "assistant", "reasoning_content": ["a"] * 50_000}]),
    (
        "messages[0].tool_calls[0].function.arguments",
        [{"role": "assistant", "tool_calls": [make_call({"a": [1] * 500_000})]}],
    ),
    ("messages[0].name", [{"role": "user", "content": "a", "name": 5}]),
    ("messages[0].tool_call_id", [{"role": "tool", "content": "a", "tool_call_id": 5}]),
    ("messages", BEYOND_SMALL_CONTEXT),
    ("messages", [{"role": "user", "content": "long " * 30_000}]),
    ("messages", [{"role": "user", "content": "long " * 400_000}]),
]

RESERVED_NAMES = [
    *("padding", "truncation", "max_length", "tokenize", "return_dict", "return_tensors"),
    *("tokenizer_kwargs", "return_assistant_tokens_mask", "chat_template", "conversation"),
    *("conversations", "messages", "tools", "model", "self", "tokenizer", "model_config"),
    *("add_generation_prompt", "continue_final_message", "compiled_template", "args", "kwargs"),
    *("range", "namespace", "raise_exception", "strftime_now", "dict", "lipsum", "cycler"),
]


def template_arguments() -> Iterator[Bad]:
    for name in RESERVED_NAMES:
        for field in ("chat_template_kwargs", "chat_template_args"):
            yield Bad(f"chat_template_kwargs.{name}", {field: {name: 20_000_000}})
    both = {"padding": "max_length", "max_length": 20_000_000}
    yield Bad("chat_template_kwargs.max_length", {"chat_template_kwargs": both})
    for name in ("enable_thinking", "thinking"):
        for field in ("chat_template_kwargs", "chat_template_args"):
            for value in ([1], {"a": 1}):
                yield Bad(f"chat_template_kwargs.{name}", {field: {name: value}})
    for many in (
        {f"k{number}": number for number in range(100_000)},
        {"a": [[1]] * 50_000},
        {"a": [{"b": [0] * 100}] * 100},
    ):
        for field in ("chat_template_kwargs", "chat_template_args"):
            yield Bad("chat_template_kwargs", {field: many})


# Schemas that are wrong, and the path of what is wrong in them.
SCHEMAS: list[tuple[str, Any]] = [
    (".type", {"type": "nonsense"}),
    (".type", {"type": 5}),
    (".type", {"type": []}),
    (".properties", {"properties": 5}),
    (".properties.a", {"properties": {"a": 5}}),
    (".properties.a.type", {"properties": {"a": {"type": "nonsense"}}}),
    (".items", {"items": 5}),
    (".anyOf", {"anyOf": []}),
    (".anyOf[1].type", {"anyOf": [{}, {"type": "nonsense"}]}),
    (".allOf", {"allOf": {}}),
    (".required", {"required": "a"}),
    (".required", {"required": ["a", "a"]}),
    (".enum", {"enum": "a"}),
    (".minLength", {"minLength": -1}),
    (".minItems", {"minItems": "1"}),
    (".minimum", {"minimum": "1"}),
    (".multipleOf", {"multipleOf": 0}),
    (".uniqueItems", {"uniqueItems": 1}),
    (".pattern", {"pattern": "("}),
    (".pattern", {"pattern": 5}),
    (".pattern", {"pattern": "(" * 5000 + ")" * 5000}),
    (".pattern", {"pattern": "a" * 10_000}),
    (".patternProperties", {"patternProperties": {"(": {}}}),
    (".$ref", {"$ref": 5}),
    (".$defs.a.type", {"$defs": {"a": {"type": "nonsense"}}}),
    (".not.type", {"not": {"type": "nonsense"}}),
    ("", {"enum": ["x" * 300_000]}),
    ("", {"allOf": [{} for _ in range(20_000)]}),
    ("", nested(110)),
    # Small ones of which engines make large grammars.
    (".pattern", {"type": "string", "pattern": "^[a-z]{1,20000}$"}),
    (".properties.a.pattern", {"properties": {"a": {"pattern": "(([a-z]{30}x){30}y){30}"}}}),
    (".items.pattern", {"items": {"pattern": "[a-z]?" * 100}}),
    (".patternProperties", {"patternProperties": {"^[a-z]{1,20000}$": {}}}),
    ("", optional(2_000)),
    (".$defs.a", {"$defs": {"a": optional(300, minProperties=150)}}),
    (".anyOf[1]", {"anyOf": [{}, optional(300, maxProperties=150)]}),
    ("", {"anyOf": [optional(100) for _ in range(200)]}),
    ("", {"anyOf": [{"type": "string", "maxLength": 100 + n} for n in range(100)]}),
]


def schemas() -> Iterator[Bad]:
    for path, schema in SCHEMAS:
        yield Bad(f"tools[0].function.parameters{path}", {"tools": [tool(schema)]})
        yield Bad(
            f"response_format.json_schema.schema{path}", {"response_format": json_schema(schema)}
        )
        yield Bad(f"guided_json{path}", {"guided_json": schema})
        if path:
            yield Bad(f"guided_json{path}", {"guided_json": json.dumps(schema)})
    forced = {**FORCED, "tools": [tool({"type": "nonsense"})]}
    yield Bad("tools[0].function.parameters.type", forced)
    yield Bad("tools", {"tools": [tool({"enum": ["x" * 200_000]}, f"f{i}") for i in range(6)]})
    large = {"type": "string", "pattern": "[a-z]{1,20000}"}
    for part in (
        {"type": "json_schema", "json_schema": large},
        {"type": "sequence", "elements": [{**large, "type": "regex"}]},
        {"type": "grammar", "grammar": "root ::= [a-z]{1,20000}"},
    ):
        yield Bad(
            "response_format", {"response_format": {"type": "structural_tag", "format": part}}
        )
    structures = [{"begin": "<a>", "schema": large, "end": "</a>"}]
    older = {"type": "structural_tag", "structures": structures, "triggers": ["<a>"]}
    yield Bad("response_format", {"response_format": older})
    tools = [tool({"pattern": f"[a-z]{{{n},3000}}"}, f"f{n}") for n in range(4)]
    yield Bad("tools[2].function.parameters", {"tools": tools})
    yield Bad("guided_json", {"guided_json": "[" * 100_000})
    yield Bad("guided_json", {"guided_json": "[" * 500 + "]" * 500})
    yield Bad("guided_json", {"guided_json": '{"items":' * 500 + "{}" + "}" * 500})
    yield Bad("response_format.json_schema", {"response_format": {"type": "json_schema"}})


TOOLS: list[tuple[str, Any]] = [
    ("tools[0].function.name", [tool(name="")]),
    ("tools[0].function.name", [tool(name="f" * 257)]),
    ("tools[0].function.name", [tool(name="f" * 1_000_000)]),
    ("tools[0].function.name", [tool(name=5)]),
    ("tools[1].function.name", [TOOL, TOOL]),
    ("tools[0].function", [{"type": "function"}]),
    ("tools[0]", ["x"]),
    ("tools[0].type", [{**TOOL, "type": "nonsense"}]),
    ("tools[0].type", [{**TOOL, "type": ["function"]}]),
    ("tools[0].function.description", [{"function": {"name": "f", "description": 5}}]),
    ("tools[0].function.strict", [{"function": {"name": "f", "strict": "x"}}]),
    ("tools[0].function.parameters", [tool("x")]),
    ("tools[0].function.parameters", [tool([])]),
    ("tools", [tool(name=f"f{number}") for number in range(1025)]),
]


def choices() -> Iterator[Bad]:
    yield Bad("tool_choice", {"tool_choice": "required"})
    yield Bad("tool_choice", {"tool_choice": "required", "tools": []})
    yield Bad("tool_choice", {"tool_choice": NAMED})
    other = {"type": "function", "function": {"name": "g"}}
    yield Bad("tool_choice", {"tool_choice": other, "tools": [TOOL]})
    for field, value in (
        *(("guided_json", {}), ("guided_json", {"type": "object"}), ("guided_json", "{}")),
        *(("guided_regex", "a+"), ("guided_regex", ""), ("guided_grammar", 'root ::= "a"')),
        *(("guided_grammar", ""), ("guided_choice", ["a", "b"])),
    ):
        yield Bad(field, {**FORCED, field: value})
        yield Bad(field, {"tools": [TOOL], "tool_choice": NAMED, field: value})
    tag = {"type": "structural_tag", "format": {"type": "const_string", "value": "x"}}
    yield Bad("response_format", {**FORCED, "response_format": tag})
    yield Bad("guided_regex", {"guided_json": {}, "guided_regex": "a"})
    yield Bad("guided_choice", {"guided_regex": "a", "guided_choice": ["a"]})
    yield Bad("guided_json", {"guided_json": 5})
    yield Bad("guided_json", {"guided_json": "no json"})
    yield Bad("guided_json", {"guided_json": []})
    yield Bad("guided_json", {"guided_json": ""})
    yield Bad("guided_regex", {"guided_regex": 5})
    yield Bad("guided_regex", {"guided_regex": ""})
    yield Bad("guided_regex", {"guided_regex": "(" * 5000 + ")" * 5000})
    yield Bad("guided_regex", {"guided_regex": "a" * 10_000})
    yield Bad("guided_regex", {"guided_regex": "[a-z]{1,20000}"})
    yield Bad("guided_grammar", {"guided_grammar": "root ::= " + '"a"? ' * 400})
    yield Bad("guided_grammar", {"guided_grammar": f"root ::= {'a ' * 400}\na ::= [a-z]?"})
    yield Bad(
        "guided_whitespace_pattern",
        {"guided_json": {}, "guided_whitespace_pattern": "[ ]{0,20000}"},
    )
    yield Bad("guided_grammar", {"guided_grammar": 5})
    yield Bad("guided_grammar", {"guided_grammar": "a" * 70_000})
    yield Bad("guided_choice", {"guided_choice": "a"})
    yield Bad("guided_choice", {"guided_choice": [5]})
    yield Bad("guided_choice", {"guided_choice": ["a" * 70_000]})
    yield Bad("guided_whitespace_pattern", {"guided_json": {}, "guided_whitespace_pattern": 5})


def options() -> Iterator[Bad]:
    yield Bad("metadata.backedge", {"metadata": {"backedge": 3}})
    yield Bad("metadata.backedge", {"metadata": {"backedge": "no json"}})
    yield Bad("metadata.backedge", {"metadata": {"backedge": "[" * 100_000}})
    yield Bad("metadata.backedge", {"metadata": {"backedge": '{"a":' * 500 + "1" + "}" * 500}})
    for text, field in (
        (json.dumps({"stop_token_ids": [1] * 100_000}), ""),
        (r'{"keep_turns": "\ud800"}', ".keep_turns"),
        (r'{"stop_token_ids": ["\ud800"]}', ".stop_token_ids"),
        (r'{"\ud800": 1}', r".\ud800"),
    ):
        yield Bad(f"metadata.backedge{field}", {"metadata": {"backedge": text}})
    yield Bad("metadata.backedge.colour", metadata(colour="red"))
    yield Bad("metadata.backedge.stop_regex", metadata(stop_regex="a"))
    yield Bad("metadata.backedge.stop_token_ids", metadata(stop_token_ids="x"))
    yield Bad("metadata.backedge.stop_token_ids", metadata(stop_token_ids=["x"]))
    for name in ("", "x" * 257, 5):
        yield Bad("metadata.backedge.conversation", metadata(conversation=name))
    for name in ("return_token_ids", "spaces_between_special_tokens", "include_reasoning"):
        yield Bad(f"metadata.backedge.{name}", metadata(**{name: "x"}))
    long = "x" * 1_000_000
    yield Bad(shorten(f"metadata.backedge.{long}", MAX_SHOWN_NAME), metadata(**{long: 1}))


def bad_requests() -> Iterator[Bad]:
    yield from numbers()
    yield from types()
    yield from (Bad(field, {"messages": messages}) for field, messages in MESSAGES)
    yield from template_arguments()
    yield from schemas()
    yield from (Bad(field, {"tools": tools}) for field, tools in TOOLS)
    yield from choices()
    yield from options()


BAD = list(bad_requests())
