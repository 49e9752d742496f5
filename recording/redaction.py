"""Redacts a recording: types, switches and markers are kept, words are not.

An answer is redacted as a whole, since words and markers span tokens. Text that parsers look for
(`kept_text`), white space and punctuation are kept; declared names become short ones, the same
everywhere; a run of letters in a token becomes one letter, a run of digits one digit. A token whose
text does not change keeps its id; another one becomes the tokens of its new text, mostly one. So a
parser finds the same markers, quotes and brackets in the same order, and names where they were.
"""

from __future__ import annotations

import builtins
import functools
import inspect
import re
import time
from collections.abc import Mapping, Sequence
from urllib.parse import unquote

import msgspec

from ..base.errors import BackedgeError
from ..base.json_schema import JSON_TYPES, Holds, join_pointer, replace_nested, split_pointer
from ..base.json_types import JsonObject
from ..base.limits import MAX_SEARCHED
from ..parsers.base import ParserNames
from ..parsers.linear_parsers import NONEMPTY
from ..parsers.parser_lookup import known_formats
from ..postprocess.messages import ChoiceDelta, Delta, FunctionDelta, PostprocessParams
from ..postprocess.messages import ToolCallDelta as CallDelta
from ..tokenization.detokenizer import DetokenizerFactory, DetokenizerOptions
from .kept_text import DIGITS, KEPT_HOLDERS, LETTERS, NAME, KeptText, is_replaced
from .recording import RecordedChunk, RecordedDeltas, Recording

# Length of a text to look up as one token: a space or a quote, and the letter.
_LONGEST = 2
_SHOWN = DetokenizerOptions(skip_special_tokens=False, spaces_between_special_tokens=False)
# The text of a token that the vocabulary defines as a marker.
_MARKER = re.compile(r"\s*(?:<[^<>\s]{1,64}>|\[/?[A-Z_]{2,40}\])\s*")
# Replaces each character of a delta.
DOT = "."
# Between two parts of a search other threads may run.
_STRIDE = 256
_TYPE_OF: dict[type, str] = {
    str: "string",
    bool: "boolean",
    int: "integer",
    float: "number",
    list: "array",
    type(None): "null",
}
_BUILTIN_ERRORS = frozenset(
    name
    for name, kind in inspect.getmembers(builtins, inspect.isclass)
    if issubclass(kind, BaseException)
)
_CHOICES = ("none", "auto", "required")
_CONTAINERS = {Holds.MAP: dict, Holds.LIST: list}


class Redactor:
    """Redacts the requests of one model. detokenizers: of its tokenizer.

    The constructor searches the vocabulary, which takes some tenths of a second.
    """

    def __init__(self, detokenizers: DetokenizerFactory) -> None:
        self.detokenizers = detokenizers
        self._ids = find_short_tokens(detokenizers)
        self._spelled: dict[str, list[int]] = {}
        self._markers: dict[int, bool] = {}

    def spell(self, text: str) -> list[int]:
        """Return the tokens of `text`, without characters that no tokens spell."""
        found = self._spelled.get(text)
        if found is None:
            found = self._spelled[text] = self._find(text)
        return found

    def is_marker(self, token_id: int) -> bool:
        """Whether a token is kept: it is special, or its text is in brackets."""
        known = self._markers.get(token_id)
        if known is None:
            text = self.detokenizers.read([token_id])
            known = self.detokenizers.is_special(token_id) or bool(_MARKER.fullmatch(text))
            self._markers[token_id] = known
        return known

    def _find(self, text: str) -> list[int]:
        found, position = [], 0
        while position < len(text):
            for length in range(_LONGEST, 0, -1):
                token_id = self._ids.get(text[position : position + length].encode())
                if token_id is not None:
                    found.append(token_id)
                    break
            else:
                single = (bytes((byte,)) for byte in text[position].encode())
                found += filter(None, map(self._ids.get, single))
            position += length
        return found


def find_short_tokens(detokenizers: DetokenizerFactory) -> dict[bytes, int]:
    """Return the ids of texts of one byte or character, or of two with a letter second."""
    found: dict[bytes, int] = {}
    for token_id in range(MAX_SEARCHED):
        if token_id % _STRIDE == 0:
            time.sleep(0)
        try:
            raw = detokenizers.token_bytes(token_id)
        except Exception:  # noqa: BLE001 - a tokenizer is third-party code: it has no more ids
            break
        text = raw.decode(errors="ignore")
        is_short = len(text) == 1 or (len(text) == _LONGEST and text[1] in LETTERS + DIGITS)
        if len(raw) == 1 or (is_short and text.encode() == raw):
            found.setdefault(raw, token_id)
    return found


@functools.cache
def known_switches() -> frozenset[str]:
    """Return the template's variables that any format reads."""
    formats = [entry.reasoning for entry in known_formats().values()]
    return frozenset({NONEMPTY}.union(*(each.thinking_flags for each in formats if each)))


class RequestRedactor:
    """Redacts one request. parsers: the model's parser names."""

    def __init__(self, redactor: Redactor, params: PostprocessParams, parsers: ParserNames) -> None:
        self._redactor = redactor
        self.kept = KeptText(params, parsers)

    def redact(self, chunks: Sequence[Sequence[int]]) -> list[list[int]]:
        """Return the token ids that replace those in the consecutive `chunks`.

        A chunk may have more or fewer ids than before.
        """
        feed = self._redactor.detokenizers(_SHOWN, ()).feed
        texts = [[feed(token_id) for token_id in chunk] for chunk in chunks]
        whole = "".join(text for chunk in texts for text in chunk)
        mask = self.kept.mask(whole)
        position, redacted = 0, []
        waiting: list[tuple[list[int], int]] = []  # tokens within a character, without text yet
        for chunk, of_chunk in zip(chunks, texts, strict=True):
            new: list[int] = []
            redacted.append(new)
            for token_id, text in zip(chunk, of_chunk, strict=True):
                if self._redactor.is_marker(token_id):
                    new.append(token_id)
                elif not text:
                    waiting.append((new, token_id))
                    continue
                else:
                    self._add(new, token_id, text, mask[position : position + len(text)], waiting)
                waiting = []
                position += len(text)
        return redacted

    def _add(
        self,
        new: list[int],
        token_id: int,
        text: str,
        mask: Sequence[str | None],
        waiting: list[tuple[list[int], int]],
    ) -> None:
        """Append to `new` the replacement of a token, and of those before it without text."""
        redacted = self._redact_text(text, mask)
        if redacted != text:
            new += self._redactor.spell(redacted)
            return
        for chunk, waiting_id in waiting:
            chunk.append(waiting_id)
        new.append(token_id)

    def _redact_text(self, text: str, mask: Sequence[str | None]) -> str:
        parts: list[str] = []
        last = ""
        for character, kept in zip(text, mask, strict=True):
            new = self._replace(character) if kept is None else kept
            is_word = kept is None and new != character
            if not is_word or new != last:
                parts.append(new)
            last = new if is_word else ""
        return "".join(parts)

    def _replace(self, character: str) -> str:
        """Return the replacement of a character: itself outside of words and numbers."""
        if not is_replaced(character):
            return character
        return self.kept.digit if character.isdecimal() else self.kept.letter

    def redact_delta(self, delta: ChoiceDelta) -> ChoiceDelta:
        """Return a delta of the same kind, with dots for text, without token ids and logprobs."""
        part = delta.delta
        return ChoiceDelta(
            delta.index,
            Delta(
                role=part.role,
                content=part.content and DOT * len(part.content),
                reasoning_content=part.reasoning_content and DOT * len(part.reasoning_content),
                tool_calls=[
                    CallDelta(
                        call.index,
                        FunctionDelta(
                            DOT * len(call.function.arguments),
                            self._redact_name(call.function.name),
                        ),
                        None,
                        call.type,
                    )
                    for call in part.tool_calls
                ],
            ),
            delta.finish_reason,
            self.redact_stop(delta.stop_reason),
        )

    def redact_stop(self, reason: str | int | None) -> str | int | None:
        """Return the stop string as renamed; a token's id stays."""
        return self.kept.stops.get(reason, "") if isinstance(reason, str) else reason

    def _redact_name(self, name: str | None) -> str | None:
        if name is None or name not in self.kept.names:
            return name and self.kept.letter
        return self.kept.renamed[name]

    def redact_params(self, params: PostprocessParams) -> PostprocessParams:
        """Return `params` in the form that a redacted recording may hold.

        The template's variables that formats read are kept. Logprobs and token ids of deltas are
        not requested, since the tokens are replaced.
        """
        parser, switches = params.parser, known_switches()
        return msgspec.structs.replace(
            params,
            logprobs=None,
            return_token_ids=False,
            return_tokens_as_token_ids=False,
            stop=[self.kept.stops.get(stop, stop) for stop in params.stop],
            parser=msgspec.structs.replace(
                parser,
                tools=[redact_tool(tool, self.kept.renamed) for tool in parser.tools],
                tool_choice=self._redact_choice(parser.tool_choice),
                chat_template_kwargs={
                    name: value
                    for name, value in parser.chat_template_kwargs.items()
                    if name in switches and (value is None or isinstance(value, bool | int | float))
                },
            ),
        )

    def _redact_choice(self, choice: str | JsonObject) -> str | JsonObject:
        if isinstance(choice, str):
            return choice if choice in _CHOICES else "required"
        return redact_tool(choice, self.kept.renamed)


def redact_recording(recording: Recording, redactor: Redactor) -> Recording:
    """Return a recording without words; of its prompt it keeps the hash and the redacted tail.

    Raises what a tokenizer raises.
    """
    of_request = RequestRedactor(redactor, recording.params, recording.model.parsers)
    [tail] = of_request.redact([recording.prompt.tail])
    return msgspec.structs.replace(
        recording,
        params=of_request.redact_params(recording.params),
        prompt=msgspec.structs.replace(recording.prompt, token_ids=None, tail=tail),
        chunks=redact_chunks(recording.chunks, of_request),
        discarded=[
            msgspec.structs.replace(call, chunks=redact_chunks(call.chunks, of_request))
            for call in recording.discarded
        ],
        sent=[
            RecordedDeltas(sent.at_ms, [of_request.redact_delta(delta) for delta in sent.deltas])
            for sent in recording.sent
        ],
        error=recording.error and name_error(recording.error),
        redacted=True,
    )


def name_error(error: str) -> str:
    """Return the class that an error's text begins with: the rest may repeat the request."""
    name = error.partition(":")[0]
    kinds = [BackedgeError]
    for kind in kinds:
        kinds += kind.__subclasses__()
    return name if name in _BUILTIN_ERRORS or name in {kind.__name__ for kind in kinds} else "error"


def redact_chunks(
    recorded: Sequence[RecordedChunk], redactor: RequestRedactor
) -> list[RecordedChunk]:
    """Redact all chunks; those of a choice together, because words span chunks."""
    by_choice: dict[int, list[list[int]]] = {}
    for item in recorded:
        by_choice.setdefault(item.chunk.index, []).append(item.chunk.token_ids)
    redacted = {index: iter(redactor.redact(ids)) for index, ids in by_choice.items()}
    return [
        RecordedChunk(
            item.at_ms,
            msgspec.structs.replace(
                item.chunk,
                token_ids=next(redacted[item.chunk.index]),
                stop_reason=redactor.redact_stop(item.chunk.stop_reason),
                logprobs=None,
                top_logprobs=None,
            ),
        )
        for item in recorded
    ]


def redact_tool(tool: JsonObject, renamed: Mapping[str, str]) -> JsonObject:
    """Reduce a tool to its name and the shape of its schema. renamed: what replaces its names."""
    function = tool.get("function")
    if not isinstance(function, dict):
        return {"type": "function"}
    name = function.get("name")
    kept: JsonObject = {"name": renamed.get(name, NAME) if isinstance(name, str) else None}
    if "parameters" in function:
        kept["parameters"] = redact_schema(function["parameters"], renamed)
    return {"type": "function", "function": kept}


def redact_schema(schema: object, renamed: Mapping[str, str], root: object = None) -> object:
    """Reduce a JSON schema to names and types; the values it allows become their types.

    renamed: what replaces names. root: the whole schema; None if `schema` is it.
    """
    if not isinstance(schema, dict):
        return schema if isinstance(schema, bool) else {}
    root = root or schema
    kept = _keep_types(schema) | _keep_links(schema, renamed, root)
    for keyword, holds in KEPT_HOLDERS.items():
        found = schema.get(keyword)
        if keyword in schema and isinstance(found, _CONTAINERS.get(holds, object)):
            if isinstance(found, dict) and holds is Holds.MAP:
                found = {renamed.get(name, NAME): part for name, part in found.items()}
            kept[keyword] = replace_nested(
                found, holds, lambda part: redact_schema(part, renamed, root)
            )
    return kept


def _keep_types(schema: JsonObject) -> JsonObject:
    """Return the keywords of a schema that are kept unchanged."""
    kept: JsonObject = {}
    types = schema.get("type")
    names = types if isinstance(types, list) else [types]
    known = [name for name in names if isinstance(name, str) and name in JSON_TYPES]
    known = known or _name_types(schema)
    if known:
        kept["type"] = known if isinstance(types, list) or len(known) > 1 else known[0]
    return kept


def _keep_links(schema: JsonObject, renamed: Mapping[str, str], root: object) -> JsonObject:
    """Return what names declared properties or other parts of the schema."""
    kept: JsonObject = {}
    if isinstance(nullable := schema.get("nullable"), bool):
        kept["nullable"] = nullable
    properties = schema.get("properties")
    declared = properties if isinstance(properties, dict) else {}
    if isinstance(required := schema.get("required"), list):
        names = [name for name in required if isinstance(name, str) and name in declared]
        kept["required"] = [renamed.get(name, NAME) for name in names]
    if isinstance(reference := schema.get("$ref"), str):
        kept |= _redact_reference(reference, renamed, root)
    return kept


def _redact_reference(reference: str, renamed: Mapping[str, str], root: object) -> JsonObject:
    """Return a reference to a part of the schema that is kept; others may be any words."""
    part, holds = root, None
    new = [reference.partition("/")[0]]
    for name in split_pointer(unquote(reference)):
        if isinstance(part, list):
            part, holds = dict(zip(map(str, range(len(part))), part, strict=True)), Holds.LIST
        if not isinstance(part, dict) or name not in part:
            return {}
        if holds not in _CONTAINERS and name not in KEPT_HOLDERS:
            return {}
        new.append(renamed.get(name, NAME) if holds is Holds.MAP else name)
        part, holds = part[name], None if holds in _CONTAINERS else KEPT_HOLDERS[name]
    return {"$ref": join_pointer(new)} if new[0] == "#" else {}


def _name_types(schema: JsonObject) -> list[str]:
    """Return the types of the values that a schema lists; [] if it lists none."""
    values = schema.get("enum")
    found = list(values) if isinstance(values, list) else []
    if "const" in schema:
        found.append(schema["const"])
    return list(dict.fromkeys(_TYPE_OF.get(type(value), "object") for value in found))
