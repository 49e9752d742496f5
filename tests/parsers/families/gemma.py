"""Gemma 4 and FunctionGemma: `call:f{key:value}` with marks of their own around strings."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from benchmarks.samples.sample import Call, Outcome
from tests.parsers.families.family import Case, Family, Invocation, Tags, function

CHANNEL, CHANNEL_END = "<|channel>thought\n", "<channel|>"
MARK, ESCAPE = '<|"|>', "<escape>"


def parse_value(value: Any, mark: str) -> str:
    """Return a value as both chat templates write it: JSON but for strings and keys."""
    match value:
        case str():
            return mark + value + mark
        case bool():
            return "true" if value else "false"
        case dict():
            return (
                "{"
                + ",".join(f"{key}:{parse_value(value[key], mark)}" for key in sorted(value))
                + "}"
            )
        case list():
            return "[" + ",".join(parse_value(item, mark) for item in value) + "]"
    return str(value)


def gemma4(content: str, calls: Sequence[Invocation]) -> str:
    """Write as the chat template of Gemma 4 does, with the answer's text in front."""
    written = [
        f"<|tool_call>call:{name}{parse_value(arguments, MARK)}<tool_call|>"
        for name, arguments in calls
    ]
    return content + "".join(written)


def functiongemma(content: str, calls: Sequence[Invocation]) -> str:
    """Write as the chat template of FunctionGemma does."""
    written = [
        f"<start_function_call>call:{name}{parse_value(arguments, ESCAPE)}<end_function_call>"
        for name, arguments in calls
    ]
    return content + "".join(written)


HI = Call("write", {"path": "a", "text": "hi"})
# With many tools the models write Python's keyword arguments, and namespaces in front of names,
# which no template does: jundot/omlx#1830, #1846 and #1886, vllm-project/vllm#53657,
# NousResearch/hermes-agent#7449.
KEYWORDS: tuple[Invocation, ...] = (
    ("write", {"path": "a", "text": "it's (x), {y} = z)"}),
    ("add", {"a": -1, "b": 0.5, "exact": True, "label": None}),
    ("query", {"filter": {"a": [1, {"b": "c"}]}, "tags": ["x", "y"], "limit": 3}),
    ("write", {"path": "not declared", "other": "hi"}),
    ("write", {"path": "<tool_call|> <end_function_call>"}),
)
NAMESPACES = {"google:mcp:b-c": "b-c", "x:b": "b", "x:a:b": "a:b"}
NAMED = tuple(function(name, n="integer") for name in sorted({*NAMESPACES.values()}))


def keyword_cases(begin: str, end: str, mark: str) -> Iterator[Case]:
    """Yield calls with keyword arguments, and with namespaces."""
    texts = [
        (text, Call(name, arguments))
        for name, arguments in KEYWORDS
        for text in (
            ", ".join(f"{key}={value!r}" for key, value in arguments.items()),
            ", ".join(f"{key}={parse_value(value, mark)}" for key, value in arguments.items()),
        )
    ]
    texts += [
        (text, HI)
        for text in (
            f"path: 'a', text: {mark}hi{mark}",
            '\n  path="a",\n  text="hi",\n',
            "path=a, text=hi",
        )
    ]
    texts += [
        ('"a", "hi"', Call("write", '{"a", "hi")')),
        ('path=f(1), text="hi"', Call("write", '{"path":f(1), text="hi")')),
        ('path="a" and more', Call("write", '{"path":"a" and more)')),
        ("a=3 b=4", Call("add", '{"a":3 b=4)')),
        ('**{"path": "a"}', Call("write", '{**{"path": "a"})')),
    ]
    for number, (text, call) in enumerate(texts):
        yield Case(
            f"keyword arguments {number}",
            f"{begin}call:{call.name}({text}){end}",
            Outcome(calls=(call,)),
            unfinished=isinstance(call.arguments, str),
            vllm=NO_KEYWORDS,
        )
    for written, name in NAMESPACES.items():
        output = f"{begin}call:{written}{{n:1}}{end}"
        yield Case(f"the name {written}", output, Outcome(calls=(Call(name, {"n": 1}),)),
                   tools=NAMED, vllm=WORDS)  # fmt: skip


HI_CALL = gemma4("", [(HI.name, HI.arguments)])
HI_ESCAPED = functiongemma("", [(HI.name, HI.arguments)])
NOW = Call("now", {})
ONLY_ESCAPED = (
    "reads only what stands in its marks; the chat template writes nothing but strings so"
)
BY_VALUE = "makes a number or a keyword of any string that looks like one, whatever is declared"
NO_KEYWORDS = "reads no keyword arguments"
WORDS = (
    "keeps bare words and nested numbers as strings; its template writes numbers, and Python's "
    "None for null, bare"
)

FAMILIES = (
    Family(
        "gemma4",
        gemma4,
        special=("<|channel>", CHANNEL_END, "<|tool_call>", "<tool_call|>", MARK),
        reasoning_parser="gemma4",
        tags=Tags(CHANNEL, CHANNEL_END, prompt_open=CHANNEL, prompt_closed=CHANNEL + CHANNEL_END),
        vllm="gemma4",
        vllm_differs={"nested": WORDS, "types": WORDS},
        cases=(
            Case("the channel's name left to the model", "thought\nI add.<channel|>Done.",
                 Outcome("I add.", "Done."), prompt="<|im_start|>assistant\n<|channel>"),
            Case("a channel without a name", "<|channel>I add.<channel|>Done.",
                 Outcome("I add.", "Done.")),
            Case("an empty channel", f"{CHANNEL}{CHANNEL_END}Done.", Outcome(None, "Done.")),
            Case("an empty channel without a line break", f"<|channel>thought{CHANNEL_END}Done.",
                 Outcome(None, "Done."), vllm="shows the channel's name"),
            Case("its marks in a string",
                 f"<|tool_call>call:write{{path:{MARK}say {MARK}hi{MARK} now{MARK}}}<tool_call|>",
                 Outcome(calls=(Call("write", {"path": f"say {MARK}hi{MARK} now"}),)),
                 vllm="ends the string at its first mark"),
            Case("reasoning and a call", f"{CHANNEL}I write.{CHANNEL_END}{HI_CALL}",
                 Outcome("I write.", None, (HI,))),
            Case("a call in the midst of reasoning", f"{CHANNEL}I write.{HI_CALL}",
                 Outcome("I write.", None, (HI,))),
            *keyword_cases("<|tool_call>", "<tool_call|>", MARK),
            Case("no keyword arguments", "<|tool_call>call:now()<tool_call|>",
                 Outcome(calls=(NOW,))),
            Case("a declared name with a colon", "<|tool_call>call:a:b{n:1}<tool_call|>",
                 Outcome(calls=(Call("a:b", {"n": 1}),)), tools=NAMED),
            Case("no prefix", "<|tool_call>:now{}<tool_call|>", Outcome(calls=(NOW,))),
            Case("no arguments at all", "<|tool_call>call:now<tool_call|>", Outcome(calls=(NOW,))),
            Case("white space everywhere",
                 f"<|tool_call>call:write{{ path: {MARK}a{MARK},\n"
                 f" text: {MARK}hi{MARK} }}<tool_call|>",
                 Outcome(calls=(HI,))),
            Case("JSON", '<|tool_call>call:write{"path": "a", "text": "hi"}<tool_call|>',
                 Outcome(calls=(HI,)), vllm="takes JSON's quotes for part of keys and values"),
            Case("keys in its marks",
                 f"<|tool_call>call:query{{filter:{{{MARK}a b{MARK}:1}}}}<tool_call|>",
                 Outcome(calls=(Call("query", {"filter": {"a b": 1}}),)), vllm=WORDS),
            Case("a comma missing in front of a key",
                 f"<|tool_call>call:write{{path:{MARK}a{MARK}text:{MARK}hi{MARK}}}<tool_call|>",
                 Outcome(calls=(HI,))),
            Case("a bare value of a declared string",
                 "<|tool_call>call:write{path:12345}<tool_call|>",
                 Outcome(calls=(Call("write", {"path": "12345"}),))),
            Case("bare values with spaces",
                 "<|tool_call>call:write{path:New York,text:a/b}<tool_call|>",
                 Outcome(calls=(Call("write", {"path": "New York", "text": "a/b"}),))),
            Case("keys with spaces and slashes", "<|tool_call>call:now{a b:1,/v1:2}<tool_call|>",
                 Outcome(calls=(Call("now", {"a b": 1, "/v1": 2}),)), vllm=WORDS),
            Case("a number in its marks stays a string",
                 f"<|tool_call>call:write{{path:{MARK}3{MARK}}}<tool_call|>",
                 Outcome(calls=(Call("write", {"path": "3"}),))),
            Case("other marks in a string",
                 f"<|tool_call>call:write{{text:{MARK}say \"it's\" <tool_call|> {{{MARK}}}"
                 f"<tool_call|>",
                 Outcome(calls=(Call("write", {"text": "say \"it's\" <tool_call|> {"}),)),
                 vllm="ends the call at the end marker inside the string"),
            Case("no end of the first call",
                 HI_CALL.removesuffix("<tool_call|>") + "<|tool_call>call:now{}<tool_call|>",
                 Outcome(calls=(HI, NOW)),
                 vllm="takes the second call for an argument of the first"),
            Case("no end marker", HI_CALL.removesuffix("<tool_call|>"), Outcome(calls=(HI,))),
            Case("a brace missing", HI_CALL.replace("}", ""), Outcome(calls=(HI,))),
            Case("text behind", HI_CALL + "Done.", Outcome(None, "Done.", (HI,)),
                 vllm="drops text behind a call"),
            Case("a marker that begins no call", "Use <|tool_call> for it.",
                 Outcome(None, "Use <|tool_call> for it."),
                 vllm="drops the marker and all that follows"),
            Case("cut in a string", f"<|tool_call>call:write{{path:{MARK}ab",
                 Outcome(calls=(Call("write", '{"path":"ab'),)), finish="length",
                 vllm="closes what generation has cut"),
            Case("cut in the name", "Hi<|tool_call>call:wri", Outcome(None, "Hi"), finish="length",
                 vllm="calls the beginning of a name"),
        ),
    ),
    Family(
        "functiongemma",
        functiongemma,
        special=("<start_function_call>", "<end_function_call>", ESCAPE),
        vllm="functiongemma",
        vllm_differs={
            "two calls": ONLY_ESCAPED,
            "three of one": BY_VALUE,
            "a call behind one without arguments": ONLY_ESCAPED,
            "nested": ONLY_ESCAPED,
            "lists": ONLY_ESCAPED,
            "types": ONLY_ESCAPED,
            "strings that look like other types": BY_VALUE,
        },
        cases=(
            Case("white space everywhere",
                 f"<start_function_call>call:write{{path: {ESCAPE}a{ESCAPE}, text: {ESCAPE}"
                 f"hi{ESCAPE}}}<end_function_call>",
                 Outcome(calls=(HI,)), vllm="wants no space in front of a string and loses both"),
            *keyword_cases("<start_function_call>", "<end_function_call>", ESCAPE),
            Case("numbers in its marks are strings",
                 f"<start_function_call>call:write{{path:{ESCAPE}3{ESCAPE}}}<end_function_call>",
                 Outcome(calls=(Call("write", {"path": "3"}),)), vllm=BY_VALUE),
            Case("end marker in a string",
                 f"<start_function_call>call:write{{text:{ESCAPE}}}<end_function_call>{ESCAPE}}}"
                 f"<end_function_call>",
                 Outcome(calls=(Call("write", {"text": "}<end_function_call>"}),)),
                 vllm="ends the call inside the string and loses it"),
            Case("no end marker", HI_ESCAPED.removesuffix("<end_function_call>"),
                 Outcome(calls=(HI,))),
            Case("a brace missing", HI_ESCAPED.replace("}", ""), Outcome(calls=(HI,))),
            Case("text behind", HI_ESCAPED + "Done.", Outcome(None, "Done.", (HI,)),
                 vllm="drops text behind a call"),
            Case("no arguments at all", "<start_function_call>call:now<end_function_call>",
                 Outcome(calls=(NOW,)), vllm="wants braces and gives the markup as text"),
            Case("a marker that begins no call", "Use <start_function_call> for it.",
                 Outcome(None, "Use <start_function_call> for it.")),
            Case("cut in a string", f"<start_function_call>call:write{{path:{ESCAPE}ab",
                 Outcome(calls=(Call("write", '{"path":"ab'),)), finish="length",
                 vllm="calls without what generation has cut"),
        ),
    ),
)  # fmt: skip
