"""Post-processing for Dynamo's own Rust frontend: the worker sends it text.

The Rust frontend neither detokenizes a chunk that has `text` nor searches it for stop strings. It
still parses reasoning and tool calls, because only it has the request's tools.
"""

from __future__ import annotations

import codecs
import functools
from collections import deque
from collections.abc import Callable, Collection, Sequence

import msgspec
from typing_extensions import override

from ..base.errors import REASONING_FLAG, TOOL_CALL_FLAG, RequestError
from ..base.json_types import JsonObject
from ..parsers.base import ParserNames
from ..parsers.format import Format, Jump, State, target_state
from ..parsers.parser_lookup import Kind, reasoning_format, tool_format
from ..parsers.passthrough import PassthroughParsers
from ..postprocess.chunk_scheduler import ChunkScheduler, ScheduledChunk
from ..postprocess.messages import KEY, ChoiceDelta, Delta, PostprocessParams
from ..postprocess.postprocessor import Postprocessor
from ..postprocess.raw_text import RawTexts, TextRun
from ..postprocess.settings import MERGE_DELAYS, MergeDelays, PostprocessSettings
from ..postprocess.stage_timing import Clock
from ..recording.recorder import Recorder
from ..tokenization.detokenizer import DetokenizerFactory, DetokenizerOptions
from ..tokenization.detokenizer.base import REPLACEMENT
from .backend import InlineBackend, NewRequest
from .chunk_writer import ChunkWriter
from .metrics import WorkerMetrics
from .request_check import check_params
from .request_stream import WorkerPostprocessor


def known_in_rust(flag: str) -> Collection[str]:
    """Return the names that Dynamo accepts for one of the two flags; none without Dynamo."""
    try:
        from dynamo._core import get_reasoning_parser_names, get_tool_parser_names
    except ImportError:
        return ()
    names: list[str] = {
        TOOL_CALL_FLAG: get_tool_parser_names,
        REASONING_FLAG: get_reasoning_parser_names,
    }[flag]()
    return names


def name_in_rust(flag: str, format_: Format) -> str | None:
    """Return Dynamo's name of a format; None if its frontend does not support it."""
    known = known_in_rust(flag)
    return next((name for name in (format_.name, *format_.aliases) if name in known), None)


def complete_names(names: ParserNames, in_rust: ParserNames, kind: Kind) -> ParserNames:
    """Return `names`, completed by the formats that Dynamo's flags for stock frontends name.

    in_rust: the names of those flags. kind: native parsers are only those that are named.
    """
    if kind == "native":
        return names
    tool = tool_format(in_rust.tool_call) if in_rust.tool_call else None
    reasoning = reasoning_format(in_rust.reasoning) if in_rust.reasoning else None
    return ParserNames(
        names.tool_call or (None if tool is None else tool.name),
        names.reasoning or (None if reasoning is None else reasoning.name),
    )


# Text for the client; the frontend holds back markup until it is complete.
TEXT_STATES = (State.START, State.CONTENT, State.REASONING_OPENED, State.REASONING)
LEAD_TO_TEXT = (*TEXT_STATES, Jump.RETURN, Jump.BY_HEADER)
# Dynamo's tool parsers react to each chunk with one of these, whatever their format: it may begin
# or end a call, and the text around it is trimmed or never searched for calls.
SIGNS = ("{", "}", "[", "]", "<", ">")


def find_markers(in_rust: ParserNames, names: ParserNames) -> list[str] | None:
    """Return the markers that begin or end text for the client; [] without parsers.

    in_rust: the frontend's parsers. names: the worker's, for formats with different names there.
    Return None for a format that is unknown or lacks such markers.
    """
    markers = dict.fromkeys(SIGNS if in_rust.tool_call is not None else ())
    for find, in_frontend, in_worker in (
        (tool_format, in_rust.tool_call, names.tool_call),
        (reasoning_format, in_rust.reasoning, names.reasoning),
    ):
        if in_frontend is None:
            continue
        format_ = find(in_frontend) or (find(in_worker) if in_worker else None)
        own = () if format_ is None else read_markers(format_)
        if not own:
            return None
        markers |= dict.fromkeys(own)
    return list(markers)


def read_markers(format_: Format) -> list[str]:
    """Return the markers of one format that begin or end text for the client."""
    return [
        marker
        for state, by_marker in format_.states.items()
        for marker, target in by_marker.items()
        if marker.strip() and (state in TEXT_STATES or target_state(target) in LEAD_TO_TEXT)
    ]


def read_stock_params(request: JsonObject, request_id: str) -> PostprocessParams | None:
    """Return the parameters for post-processing; None if the request must pass unchanged.

    request: Dynamo's `PreprocessedRequest`, checked by `check_engine_fields`.
    """
    if not _is_of_rust(request):
        return None
    stops = request.get("stop_conditions") or {}
    sampling = request.get("sampling_options") or {}
    output = request.get("output_options") or {}
    token_ids = request.get("token_ids") or []
    skip = output.get("skip_special_tokens")
    params = PostprocessParams(
        response_id=request_id,
        created=0,
        model=request.get("model") or "",
        prompt_length=len(token_ids),
        n=sampling.get("n") or 1,
        stop=stops.get("stop") or [],
        include_stop_str_in_output=bool(sampling.get("include_stop_str_in_output")),
        min_tokens=stops.get("min_tokens") or 0,
        detokenizer=DetokenizerOptions(skip_special_tokens=skip is None or bool(skip)),
    )
    try:
        check_params(params, len(token_ids))
    except RequestError:
        return None  # the frontend accepted this, so it must answer it
    return params


def _is_of_rust(request: JsonObject) -> bool:
    """Whether Dynamo's Rust frontend sent the request and reads the `text` of its chunks.

    It names the model card. Python frontends do not: they read tokens. So does Backedge's own
    frontend, which post-processes by itself if it cannot read the worker's card.
    """
    extra_args = request.get("extra_args") or {}
    if not request.get("mdc_sum") or KEY in extra_args:
        return False
    if "vllm_tito" in extra_args or request.get("jail_seed"):
        return False  # the client wants tokens, so the frontend itself holds back their text
    return not (request.get("stop_conditions") or {}).get("stop_token_ids_visible")


TokenLogprobs = tuple[float, list[JsonObject]]
"""A token's natural-log probability, and its alternatives as the engine gave them."""


class StockWriter(ChunkWriter):
    """Adds text to tokens, and the logprobs as the engine gave them."""

    def __init__(self, detokenizers: DetokenizerFactory, clock: Clock | None = None) -> None:
        super().__init__()
        self._detokenizers = detokenizers
        # By choice: logprobs of tokens not yet sent; None for a choice without logprobs.
        self._logprobs: dict[int, deque[TokenLogprobs | None] | None] = {}
        self._ends: dict[int, JsonObject] = {}
        self._pending: dict[int, bytes] = {}  # by choice: bytes of an incomplete character

    @override
    def add(self, index: int, output: JsonObject) -> None:
        super().add(index, output)
        if output.get("finish_reason") is not None:
            self._ends[index] = {
                name: output[name] for name in ("finish_reason", "stop_reason") if name in output
            }
        if token_ids := output.get("token_ids"):
            self._add_logprobs(index, output, len(token_ids))

    @override
    def write(self, scheduled: ScheduledChunk) -> JsonObject:
        index, delta = scheduled.index, scheduled.deltas[-1].delta
        chunk: JsonObject = {}
        # The engine's final fields go into the final chunk.
        if scheduled.finished or index not in self._ends:
            chunk = self.take(index)
        chunk["index"] = index
        chunk["token_ids"] = scheduled.token_ids
        chunk["text"] = delta.content or ""
        self._take_logprobs(chunk)
        if scheduled.finished:
            chunk.update(self._end(scheduled))
        return chunk

    def _end(self, scheduled: ScheduledChunk) -> JsonObject:
        last = scheduled.deltas[-1]
        if isinstance(last.stop_reason, str):
            return {"finish_reason": "stop", "stop_reason": last.stop_reason}
        return self._ends.get(scheduled.index) or {"finish_reason": "stop"}

    def _add_logprobs(self, index: int, output: JsonObject, tokens: int) -> None:
        logprobs = output.get("log_probs") or []
        if index not in self._logprobs:
            self._logprobs[index] = deque() if logprobs else None
        waiting = self._logprobs[index]
        if waiting is None:
            return
        tops = output.get("top_logprobs") or [[]] * tokens
        complete = len(logprobs) == len(tops) == tokens
        waiting.extend(zip(logprobs, tops, strict=True) if complete else [None] * tokens)

    def _take_logprobs(self, chunk: JsonObject) -> None:
        """Add the logprobs of the chunk's tokens, and the tokens' texts, which they need."""
        waiting, token_ids = self._logprobs.get(chunk["index"]), chunk["token_ids"]
        if not waiting or not token_ids:
            return
        taken = [waiting.popleft() for _ in token_ids]
        known = [item for item in taken if item is not None]
        if len(known) == len(token_ids):
            chunk["log_probs"] = [logprob for logprob, _ in known]
            chunk["top_logprobs"] = [top for _, top in known]
            chunk["tokens"] = [
                self._name(chunk["index"], token_id, top)
                for token_id, (_, top) in zip(token_ids, known, strict=True)
            ]

    def _name(self, index: int, token_id: int, top: list[JsonObject]) -> str:
        """Return the text of a token; name its alternatives as vLLM's server does.

        A token within a character has the text that it completes; the engine calls it U+FFFD.
        """
        before = self._pending.get(index, b"")
        for item in top:
            if REPLACEMENT in (item.get("token") or REPLACEMENT):
                item["token"], _ = self._decode(before, item["token_id"])
        names = (item["token"] for item in top if item["token_id"] == token_id)
        text, self._pending[index] = self._decode(before, token_id)
        return next(names, text)

    def _decode(self, before: bytes, token_id: int) -> tuple[str, bytes]:
        content = before + self._detokenizers.token_bytes(token_id)
        text, used = codecs.utf_8_decode(content, "replace")
        return text, content[used:]


class StockStream(ChunkScheduler):
    """Chunks with the tokens of their text, cut at markers."""

    def __init__(self, postprocessor: Postprocessor, delays: MergeDelays, texts: RawTexts) -> None:
        super().__init__(postprocessor, delays)
        self._texts = texts.choices
        # By choice: tokens whose text is held back, and the number of tokens already sent.
        self._waiting: list[list[int]] = [[] for _ in texts.choices]
        self._sent = [0 for _ in texts.choices]

    @override
    def take(self, now: float) -> list[ScheduledChunk]:
        return [part for chunk in super().take(now) for part in self._split(chunk)]

    def _split(self, chunk: ScheduledChunk) -> list[ScheduledChunk]:
        """Split `chunk` into one chunk for each run of its text that may be sent."""
        index = chunk.index
        self._waiting[index] += chunk.token_ids
        # A chunk without a delta is due because its time is over.
        whole = chunk.finished or not chunk.deltas
        parts = [self._part(chunk, run) for run in self._texts[index].take(whole=whole)]
        if not chunk.finished:
            return parts
        # The tokens of a stop string and the token that ended the choice have no text. White space
        # at the end of the finish's chunk would be lost to Dynamo's parsers.
        rest = self.postprocessor.choices[index].tokens - self._sent[index]
        if not parts or (rest and (parts[-1].deltas[0].delta.content or "")[-1:].isspace()):
            parts.append(self._part(chunk, TextRun()))
        last, end = parts[-1], chunk.deltas[-1]
        last.token_ids += self._waiting[index][:rest]
        last.deltas = [ChoiceDelta(index, last.deltas[0].delta, end.finish_reason, end.stop_reason)]
        last.finished, last.ended_early, last.times = True, chunk.ended_early, chunk.times
        return parts

    def _part(self, chunk: ScheduledChunk, run: TextRun) -> ScheduledChunk:
        index = chunk.index
        waiting = self._waiting[index]
        token_ids, self._waiting[index] = waiting[: run.tokens], waiting[run.tokens :]
        self._sent[index] += run.tokens
        delta = ChoiceDelta(index, Delta(content=run.text))
        return ScheduledChunk(index, token_ids, [delta], chunk.waited_s)


class StockBackend(InlineBackend):
    """Post-processes in this process.

    markers: of the frontend's parsers; each gets a chunk without other text. None for chunks of
        one token.
    """

    def __init__(
        self,
        detokenizers: DetokenizerFactory,
        markers: Sequence[str] | None,
        settings: PostprocessSettings,
        metrics: WorkerMetrics,
    ) -> None:
        if markers is None:
            settings = msgspec.structs.replace(settings, delays=MERGE_DELAYS["lowest"])
        super().__init__(detokenizers, PassthroughParsers(), settings, metrics.report)
        self._markers = markers
        self._metrics = metrics

    @property
    @override
    def parsers_name(self) -> str:
        return self._metrics.parsers_name  # those of the requests that are parsed here

    @override
    def start(self, new: NewRequest) -> StockStream:
        texts = RawTexts(self._markers)
        return StockStream(self.build(new, texts), self.settings.delays, texts)


def build_stock_postprocessor(
    detokenizers: DetokenizerFactory,
    markers: Sequence[str] | None,
    settings: PostprocessSettings,
    metrics: WorkerMetrics,
    show: Callable[[Exception], Exception],
    recorder: Recorder | None = None,
) -> WorkerPostprocessor:
    """Build the post-processor for stock frontends' requests in a worker.

    markers: as for `StockBackend`. show: as for `WorkerPostprocessor`. recorder: the one for
        the worker's other requests; None to record nothing.
    """
    backend = StockBackend(detokenizers, markers, settings, metrics)
    write = functools.partial(StockWriter, detokenizers)
    unparsed = None if recorder is None else recorder.without_parsers()
    return WorkerPostprocessor(backend, metrics, show, write, unparsed)
