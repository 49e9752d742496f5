"""transformers' own parser of a checkpoint's `response_template`, for those that no table holds.

It runs expressions of the model's folder. In the processes of a pool a step has a deadline;
commands and batches, which have one user, give it one by a signal.
"""

from __future__ import annotations

import contextlib
import json
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NoReturn, cast

from transformers.utils.chat_parsing import ResponseParser
from typing_extensions import override

from ...base.errors import SetupError
from ...base.json_types import JsonObject
from ...base.limits import MAX_STEP_S, MAX_WORD
from ...parsers.arguments.type_conversion import retype, text_to_json
from ...parsers.base import ParserFactory, ParserNames, ParserRequest, StreamParser
from ...parsers.events import Content, Event, Reasoning
from ...parsers.native.reasoning_count import ReasoningCount
from ...parsers.native.sent_calls import SentCalls
from ...parsers.native.startup_checks import EngineTokenizer
from ...parsers.passthrough import PassthroughParser
from ...parsers.response_template import (
    CALLS,
    CONTENT,
    REASONING_FIELDS,
    describing_name,
    read_fields,
    read_text,
    wants_native,
)
from ...parsers.schema import FunctionSchema, ValueSchema, read_parameters

Limit = Callable[[], contextlib.AbstractContextManager[None]]


@contextlib.contextmanager
def limit_step() -> Iterator[None]:
    """Raise `TimeoutError` in a step of more than `MAX_STEP_S`, even in an expression."""

    def end(*_: object) -> NoReturn:
        raise TimeoutError(f"a step took longer than the deadline of {MAX_STEP_S} s")

    previous = signal.signal(signal.SIGALRM, end)
    signal.setitimer(signal.ITIMER_REAL, MAX_STEP_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)


def limited_parsers(tokenizer: object, names: ParserNames) -> DescribedParsers:
    """Return parsers with a deadline of their own. Raises `SetupError` as `DescribedParsers`.

    Only the main thread gets signals; elsewhere it is refused.
    """
    if threading.current_thread() is not threading.main_thread():
        raise SetupError(
            "no table holds the model's `response_template`, and without a worker's pool "
            "transformers' own parser, which runs its expressions, needs the main thread."
        )
    return DescribedParsers(tokenizer, names, limit_step)


class DescribedParsers(ParserFactory):
    """Builds the parsers of a description.

    tokenizer: None in a process that runs no expression, where all text is content.
    limit: the context of a step. A pool has a deadline of its own.
    Raises `SetupError` if transformers cannot use the description.
    """

    def __init__(
        self, tokenizer: object, names: ParserNames, limit: Limit = contextlib.nullcontext
    ) -> None:
        self._limit = limit
        self.name = names.label
        self._names = names
        self._tokenizer = cast("EngineTokenizer | None", tokenizer)
        name = describing_name(names)
        read_fields(name)
        self._description: JsonObject = json.loads(read_text(name))
        for field in self._description["fields"].values():
            field.pop("optional", None)  # an answer without it is an answer
            _drop_end(field)
        if tokenizer is not None:
            try:
                with limit():
                    ResponseParser(self._description, prefix="")
            except Exception as error:
                raise SetupError(
                    f"transformers refuses the model's `response_template`: {error}."
                ) from error

    @override
    def shows_special_tokens(self, request: ParserRequest) -> bool:
        return True

    @override
    def __call__(self, request: ParserRequest, prompt_token_ids: Sequence[int]) -> StreamParser:
        if self._tokenizer is None:
            return PassthroughParser()
        prompt = self._tokenizer.decode(list(prompt_token_ids))
        with self._limit():
            # Without tools, since versions differ in how they type values.
            tools = list(request.tools) if wants_native(self._names) else None
            parser = ResponseParser(self._description, prefix=prompt, tools=tools)
        fields = self._description["fields"]
        return DescribedParser(parser, fields, self._names, request, self._limit)


class DescribedParser(StreamParser):
    """Parses one choice.

    fields: of the description; others than an answer's are not shown. limit: the context of a step.
    """

    token_aligned = True

    def __init__(
        self,
        parser: Any,
        fields: JsonObject,
        names: ParserNames,
        request: ParserRequest,
        limit: Limit = contextlib.nullcontext,
    ) -> None:
        self._parser = parser
        self._limit = limit
        self._kinds: dict[str, type[Reasoning | Content]] = {
            **dict.fromkeys(REASONING_FIELDS, Reasoning if names.reasoning else Content),
            CONTENT: Content,
        }
        self._kept = {
            name
            for name, field in fields.items()
            if not field.get("content_args", {}).get("strip", True)
        }
        # The text between two texts of a field.
        self._joins = {name: field.get("join") or "" for name, field in fields.items()}
        self._spaces = dict[str, str]()  # after the last text of each field that has had one
        # Where a text so far ends, `\b` finds a boundary after a word alone.
        self._ends_in_word = any("\\b" in str(field) for field in fields.values())
        self._waiting = ""
        self._declared = {
            name: FunctionSchema(parameters)
            for name, parameters in read_parameters(request.tools).items()
            if names.tool_call and request.parses_own_syntax
        }
        self._has_text_values = fields.get(CALLS, {}).get("content") == "xml-inline"
        # Text of no field is dropped, unless it is the JSON to which a grammar holds the answer.
        self._json = tuple(mark for mark in "{[" if not _opens_with(fields, mark))
        self._calls = SentCalls()
        self._is_native = wants_native(names)
        self._region: str | None = None
        self._body = ""
        self._is_plain, self._is_between = False, True
        list(self._read(parser.initial_events))
        self._count = ReasoningCount(frozenset(), in_reasoning=self._reasons)

    @property
    def _reasons(self) -> bool:
        return self._kinds.get(self._region or "") is Reasoning

    @property
    @override
    def in_reasoning(self) -> bool:
        return self._count.in_reasoning

    @property
    @override
    def reasoning_tokens(self) -> int:
        return self._count.tokens

    @override
    def reads_together(self, token_ids: Sequence[int]) -> bool:
        return len(token_ids) == 1

    @override
    def feed(self, text: str, token_ids: Sequence[int] = ()) -> list[Event]:
        before = self._region
        events = self._feed(text) if text else []
        self._count.update(
            token_ids,
            events,
            in_reasoning=self._reasons,
            passed_marker=self._region != before,
        )
        return events

    @override
    def finish(
        self, text: str = "", token_ids: Sequence[int] = (), *, cut: bool = False
    ) -> list[Event]:
        events = self.feed(text, token_ids)
        if waiting := self._waiting:
            self._ends_in_word, self._waiting = False, ""
            events += self._feed(waiting)
        if self._is_plain:
            return events
        try:
            with self._limit():
                _, found = self._parser.finalize()
        except ValueError:
            return [*events, *self._show_body()]
        if cut and self._region == CALLS and not self._is_native:
            return events  # the call stays open
        return [*events, *self._read(found)]

    def _feed(self, text: str) -> list[Event]:
        if self._is_between and text.strip():
            self._is_between = False
            self._is_plain = text.lstrip().startswith(self._json)
        if self._is_plain:
            text, self._waiting = self._waiting + text, ""
            return [Content(text)]
        if self._ends_in_word:
            text = self._wait_for_word(text)
        try:
            with self._limit():
                found = self._parser.feed(text)
            return list(self._read(found))
        except ValueError:
            # The parser cannot continue after a call that it cannot read.
            self._is_plain = True
            self._body += text
            return self._show_body()

    def _wait_for_word(self, text: str) -> str:
        """Return the text that waited and `text`, up to the end of its last word."""
        text = self._waiting + text
        end = len(text)
        while end and not (text[end - 1].isalnum() or text[end - 1] == "_"):
            end -= 1
        if len(text) - end > MAX_WORD:
            end = len(text)
        self._waiting = text[end:]
        return text[:end]

    def _show_body(self) -> list[Event]:
        return [Content(self._body)] if self._region == CALLS and self._body else []

    def _read(self, found: Sequence[JsonObject]) -> Iterator[Event]:
        for event in found:
            match event:
                case {"type": "region_open", "field": field}:
                    self._region, self._body = field, ""
                    self._is_between = False
                case {"type": "region_chunk", "text": text}:
                    yield from self._show(text)
                case {"type": "region_close", "value": value}:
                    if self._region == CALLS:
                        yield from self._send(value if isinstance(value, list) else [value])
                    self._region, self._is_between = None, True

    def _show(self, text: str) -> Iterator[Event]:
        """Yield text of the open field, without white space around all of the field's texts."""
        region = self._region or ""
        kind, before = self._kinds.get(region), self._spaces.get(region)
        join = self._joins.get(region, "") if not self._body and before is not None else ""
        if kind is not None and region not in self._kept:
            text = text.lstrip() if before is None or join else before + text
            shown = text.rstrip()
            if shown or before is not None:
                self._spaces[region] = text[len(shown) :]
            text = shown
        if kind is not None and text:
            self._spaces.setdefault(region, "")
            yield kind(join + text)
        self._body += text

    def _send(self, calls: list[object]) -> Iterator[Event]:
        """Yield complete calls; their text if one is not a call of a declared function."""
        functions = [call.get("function") for call in calls if isinstance(call, dict)]
        named = [one for one in functions if isinstance(one, dict) and "arguments" in one]
        if len(named) < len(calls) or any(one.get("name") not in self._declared for one in named):
            if self._declared:
                yield Content(self._body)
            return
        for function in named:
            arguments = self._write_arguments(function["name"], function["arguments"])
            index = len(self._calls)
            yield self._calls.start(index, function["name"], None)
            yield self._calls.add_arguments(index, arguments)

    def _write_arguments(self, name: str, arguments: object) -> str:
        """Return a call's arguments as JSON, of the declared types."""
        if isinstance(arguments, str):
            return arguments
        if isinstance(arguments, dict) and not self._is_native:
            member = self._declared[name].member
            arguments = {key: self._type(one, member(key)) for key, one in arguments.items()}
        return json.dumps(arguments, ensure_ascii=False, allow_nan=False)

    def _type(self, value: object, schema: ValueSchema) -> object:
        """Return an argument as its schema asks for; a list may hold the values of one key."""
        if not schema.declared:
            return value
        if isinstance(value, list) and "array" not in schema.kinds:
            return [one if isinstance(one, list) else self._type(one, schema) for one in value]
        if isinstance(value, str) and self._has_text_values:
            return json.loads(text_to_json(value, schema))
        is_scalar = isinstance(value, str | int | float)
        return json.loads(retype(json.dumps(value), schema)) if is_scalar else value


def _drop_end(field: JsonObject) -> None:
    """Drop the alternative `$` at which a field closes, as it does at the end without it.

    `$` matches at the end of each text so far, in place of a marker that has begun there.
    """
    pattern = field.get("close_pattern")
    if isinstance(pattern, str) and pattern.endswith("|$") and not pattern.endswith("\\|$"):
        field["close_pattern"] = pattern.removesuffix("|$")


def _opens_with(fields: JsonObject, mark: str) -> bool:
    """Return whether text with this mark may open a field or belongs to one without an opening."""
    for field in fields.values():
        opening = field.get("open", field.get("open_pattern"))
        texts = opening if isinstance(opening, list) else [opening or mark]
        if any(str(text).lstrip("\\").startswith(mark) for text in texts):
            return True
    return False
