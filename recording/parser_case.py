"""A test case: a minimal stream and the answer that a client should get.

Tokens are stored as texts, so a case runs without a tokenizer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec
from typing_extensions import override

from ..base.errors import BackedgeError
from ..base.json_types import check_nesting
from ..parsers.base import ParserNames, ParserRequest
from ..parsers.linear_parsers import Vocabulary
from ..parsers.parser_lookup import linear_parsers
from ..postprocess.delta_builder import aggregate_deltas
from ..postprocess.messages import ChoiceDelta, Chunk, PostprocessParams
from ..postprocess.postprocessor import Postprocessor
from ..tokenization.detokenizer import Detokenizer, DetokenizerFactory, DetokenizerOptions

VERSION = 1


class CaseFileError(BackedgeError):
    """A file is not a test case. The message names the file and the reason."""


class ExpectedCall(msgspec.Struct, frozen=True):
    """A tool call; arguments are the text as it was sent."""

    name: str | None
    arguments: str


class Expected(msgspec.Struct, frozen=True):
    """A whole choice, in the form of the transcripts (examples/transcripts)."""

    reasoning: str | None = None
    content: str | None = None
    tool_calls: list[ExpectedCall] = []
    finish_reason: str | None = None


class Case(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One stream of one choice.

    id: a name for display. tokens: their texts; "" for a token that gives no text by itself.
    markers: text of each added token -> whether it is special.
    prompt: the last tokens of the prompt, as texts. finish_reason: the engine's, with the last
    token. expect: what the client should get, and does get with the parsers in `expect_of`.
    instead: what it gets with the parsers in `instead_of`.
    """

    version: int = VERSION
    id: str
    parsers: ParserNames
    tokens: list[str]
    markers: dict[str, bool] = {}
    prompt: list[str] = []
    request: ParserRequest = ParserRequest()
    stop: list[str] = []
    include_stop_str_in_output: bool = False
    min_tokens: int = 0
    finish_reason: str | None = "stop"
    expect: Expected
    expect_of: str = ""
    instead: Expected | None = None
    instead_of: str = ""


class TextDetokenizers(DetokenizerFactory):
    """A vocabulary of texts. markers: text of each added token -> whether it is special."""

    def __init__(self, texts: Sequence[str], markers: Mapping[str, bool]) -> None:
        self._texts = texts
        self._special = frozenset(
            token_id for token_id, text in enumerate(texts) if markers.get(text, False)
        )

    @override
    def __call__(self, options: DetokenizerOptions, prompt_token_ids: Sequence[int]) -> Detokenizer:
        hidden = self._special if options.skip_special_tokens else frozenset()
        return TextDetokenizer(["" if n in hidden else text for n, text in enumerate(self._texts)])

    @override
    def token_bytes(self, token_id: int) -> bytes:
        return self._texts[token_id].encode()


class TextDetokenizer(Detokenizer):
    """Returns each token's text. texts: by id."""

    def __init__(self, texts: Sequence[str]) -> None:
        self._texts = texts

    @override
    def feed(self, token_id: int) -> str:
        return self._texts[token_id]


def run_case(case: Case) -> Expected:
    """Feed the tokens of a case one at a time to the linear parsers; return the choice.

    Raises `UnknownParserError` if no linear parser has that name.
    """
    texts = list(dict.fromkeys([*case.markers, *case.prompt, *case.tokens]))
    ids = {text: token_id for token_id, text in enumerate(texts)}
    detokenizers = TextDetokenizers(texts, case.markers)
    vocabulary = Vocabulary(
        {text: ids[text] for text in case.markers},
        frozenset(ids[text] for text, is_special in case.markers.items() if is_special),
        lambda token_ids: "".join(texts[token_id] for token_id in token_ids),
    )
    prompt = [ids[text] for text in case.prompt]
    params = PostprocessParams(
        response_id="case",
        created=0,
        model="case",
        prompt_length=len(prompt),
        stop=case.stop,
        include_stop_str_in_output=case.include_stop_str_in_output,
        min_tokens=case.min_tokens,
        parser=case.request,
    )
    post = Postprocessor(
        params, detokenizers, linear_parsers(case.parsers, vocabulary), prompt_token_ids=prompt
    )
    deltas: list[ChoiceDelta] = []
    for number, text in enumerate(case.tokens, 1):
        reason = case.finish_reason if number == len(case.tokens) else None
        deltas += post.feed(Chunk(token_ids=[ids[text]], finish_reason=reason))
    return read_expected(deltas)


def read_expected(deltas: Sequence[ChoiceDelta]) -> Expected:
    """Merge deltas into a whole choice."""
    if not deltas:
        return Expected()
    whole = aggregate_deltas(deltas)
    return Expected(
        whole.delta.reasoning_content,
        whole.delta.content,
        [
            ExpectedCall(call.function.name, call.function.arguments)
            for call in whole.delta.tool_calls
        ],
        whole.finish_reason,
    )


def read_case(path: Path) -> Case:
    """Return the case in a file. Raises `CaseFileError`."""
    try:
        case = msgspec.json.decode(check_nesting(path.read_bytes()), type=Case)
    except OSError as error:
        raise CaseFileError(f"{path} cannot be read ({error.strerror}).") from error
    except msgspec.DecodeError as error:
        raise CaseFileError(f"{path} is not a test case: {error}.") from error
    if case.version > VERSION:
        raise CaseFileError(
            f"{path} is of version {case.version}; this Backedge reads up to {VERSION}."
        )
    return case


def write_case(case: Case) -> bytes:
    """Return a case as the content of a file, indented for readers."""
    return msgspec.json.format(msgspec.json.encode(case), indent=2) + b"\n"
