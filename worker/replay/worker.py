"""A Dynamo worker without a model: it replays recorded outputs as token streams. No GPU, no vLLM, no torch.

    python -m backedge.worker.replay --tool-call-parser hermes --reasoning-parser qwen3

The runtime, the model card, the endpoint and the post-processing are the real
ones; in the engine's place, the transcript with the prompt of the request gives
its tokens at a given pace. All that this worker knows of Dynamo is in this file.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib.metadata
import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import msgspec
import uvloop
from dynamo.common.utils.runtime import create_runtime
from dynamo.common.utils.token_ids import normalize_request_token_ids
from dynamo.llm import ModelInput, ModelRuntimeConfig, ModelType, WorkerType, register_model
from dynamo.llm.exceptions import HttpError
from dynamo.runtime.logging import configure_dynamo_logging

from ...parsers.errors import BackedgeError, SetupError
from ...parsers.parser_lookup import linear_parsers
from ...postprocess.engine_output import JsonDict
from ...postprocess.fallback import OnError
from ...postprocess.messages import KEY, WorkerCard, encode
from ...tokenization.detokenizer import detokenizers, read_vocabulary
from ...tokenization.model_files import ModelFiles
from ..backend import InlineBackend
from ..flags import list_flags, parse_merge_delays, read_parser_names
from ..handler import WorkerPostprocessor, read_params
from ..metrics import WorkerMetrics

EXAMPLES = Path(__file__).parents[2] / "examples"
KV_BLOCK_TOKENS = 32
# How many known questions the refusal of an unknown one names, and how much of each.
SHOWN_QUESTIONS = 5
SHOWN_CHARACTERS = 60
REASONING_END = "</think>"
SHARED_FLAGS = (
    "--tool-call-parser",
    "--reasoning-parser",
    "--postprocess-on-error",
    "--postprocess-latency",
    "--postprocess-latency-ms",
)


class ToolCall(msgspec.Struct):
    """A call that a transcript expects; arguments are JSON text."""

    name: str
    arguments: str


class Expected(msgspec.Struct):
    """What a transcript's output is parsed to, as far as it is needed here."""

    tool_calls: list[ToolCall] = []


class Transcript(msgspec.Struct):
    """One line of a file of transcripts: a request, and what the model wrote, with its end-of-sequence token."""

    id: str
    messages: list[dict[str, Any]]
    output: str
    expect: Expected = msgspec.field(default_factory=Expected)
    tools: list[dict[str, Any]] | None = None
    tool_choice: str | dict[str, Any] | None = None
    chat_template_kwargs: dict[str, Any] = {}

    @property
    def question(self) -> str:
        """What the last user message says, shortened."""
        said = [
            str(message.get("content")) for message in self.messages if message["role"] == "user"
        ]
        text = said[-1] if said else self.id
        return text if len(text) <= SHOWN_CHARACTERS else text[: SHOWN_CHARACTERS - 1] + "\u2026"

    @property
    def output_in_json(self) -> str:
        """The output as a model writes it whose forced calls are held to plain JSON, instead of its own syntax."""
        reasoning, marker, answer = self.output.rpartition(REASONING_END)
        end_of_sequence = answer[answer.rindex("<|") :] if "<|" in answer else ""
        calls = [
            f'{{"name": {json.dumps(call.name)}, "parameters": {call.arguments}}}'
            for call in self.calls
        ]
        named = isinstance(self.tool_choice, dict)
        written = self.calls[0].arguments if named else f"[{', '.join(calls)}]"
        return f"{reasoning}{marker}{written}{end_of_sequence}"

    @property
    def calls(self) -> list[ToolCall]:
        """The calls in the output."""
        return self.expect.tool_calls


class Recordings:
    """The transcripts by the prompt that the forward edge makes of them.

    Raises `SetupError` if two of them have one prompt and different outputs.
    """

    def __init__(self, files: ModelFiles, transcripts: Iterable[Transcript]) -> None:
        self._files = files
        self._known: dict[tuple[int, ...], Transcript] = {}
        for transcript in transcripts:
            text = files.template.render(
                transcript.messages, transcript.tools, **transcript.chat_template_kwargs
            )
            same = self._known.setdefault(tuple(files.encode(text)), transcript)
            if same.output != transcript.output:
                raise SetupError(
                    f"transcripts {same.id!r} and {transcript.id!r} have the same prompt; drop one."
                )

    def find(self, request: JsonDict) -> list[int]:
        """Return the tokens that are still to be generated for `request`.

        Behind the prompt may come tokens that a worker which died has sent.
        Raises HttpError 400 for a prompt that no transcript has.
        """
        token_ids = request["token_ids"]
        guided = (request.get("sampling_options") or {}).get("guided_decoding") or {}
        if (whole := self._known.get(tuple(token_ids))) is not None:
            return self._output(whole, guided)
        for prompt, transcript in self._known.items():
            sent = token_ids[len(prompt) :]
            output = self._output(transcript, guided)
            if sent and tuple(token_ids[: len(prompt)]) == prompt and output[: len(sent)] == sent:
                return output[len(sent) :]
        raise HttpError(400, self._refusal())

    def _output(self, transcript: Transcript, guided: dict[str, Any]) -> list[int]:
        in_json = (
            transcript.calls
            and transcript.tool_choice
            and not guided.keys().isdisjoint(("json", "regex"))
        )
        return self._files.encode(transcript.output_in_json if in_json else transcript.output)

    def _refusal(self) -> str:
        # First those that a client can ask without tools and template variables.
        askable = sorted(
            self._known.values(), key=lambda known: bool(known.tools or known.chat_template_kwargs)
        )
        questions = list(dict.fromkeys(transcript.question for transcript in askable))
        shown = ", ".join(f'"{question}"' for question in questions[:SHOWN_QUESTIONS])
        return (
            f"This worker has no model: it only replays the {len(self._known)} example transcripts, and none of them "
            f"has this prompt. Ask, for example: {shown}; tools and chat_template_kwargs must be the transcript's, too."
        )


def read_transcripts(folder: Path) -> list[Transcript]:
    """Return the transcripts of all .jsonl files of `folder`. Raises `SetupError` if there are none, or bad ones."""
    transcripts = []
    for path in sorted(folder.glob("*.jsonl")):
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            try:
                transcripts.append(msgspec.json.decode(line, type=Transcript))
            except msgspec.DecodeError as error:
                raise SetupError(f"{path}, line {number}, is no transcript: {error}.") from error
    if not transcripts:
        raise SetupError(f"--transcripts {folder}: there is no .jsonl file with transcripts in it.")
    return transcripts


class ReplayEngine:
    """Generates known outputs.

    find: the request's whole output; raises for a request it does not know.
    tokens_per_second: of one stream; 0 for as fast as the event loop turns.
    eos_token_ids: end a choice, as those of the request do.
    """

    def __init__(
        self,
        find: Callable[[JsonDict], Sequence[int]],
        *,
        tokens_per_second: float = 0.0,
        tokens_per_chunk: int = 1,
        eos_token_ids: Iterable[int] = (),
    ) -> None:
        self._find = find
        self._pace = tokens_per_second
        self._tokens_per_chunk = tokens_per_chunk
        self._eos_token_ids = frozenset(eos_token_ids)

    def start(self, request: JsonDict, context: Any) -> Replay:
        """Return the generation of one request. Raises what `find` raises."""
        normalize_request_token_ids(request)
        ending = Ending(request, self._eos_token_ids)
        token_ids = self._find(request)
        return Replay(
            request,
            context,
            token_ids[: ending.length(token_ids)],
            ending,
            self._tokens_per_chunk,
            self._pace,
        )


class Ending:
    """Where a request's limits and stop tokens end an output, and why. Stop strings are for the post-processing."""

    def __init__(self, request: JsonDict, eos_token_ids: frozenset[int]) -> None:
        conditions = request.get("stop_conditions") or {}
        self._max_tokens: int | None = conditions.get("max_tokens")
        self._min_tokens: int = conditions.get("min_tokens") or 0
        self._eos = frozenset() if conditions.get("ignore_eos") else eos_token_ids
        hidden = conditions.get("stop_token_ids_hidden") or ()
        self._stops = frozenset((*(conditions.get("stop_token_ids") or ()), *hidden)) - self._eos
        self.finish_reason = "stop"
        self.stop_reason: int | None = None

    def length(self, token_ids: Sequence[int]) -> int:
        """Return how many of `token_ids` are generated, and remember the reason."""
        for length, token_id in enumerate(token_ids, 1):
            if length >= self._min_tokens and token_id in (self._eos | self._stops):
                self.stop_reason = token_id if token_id in self._stops else None
                return length
            if length == self._max_tokens:
                self.finish_reason = "length"
                return length
        return len(token_ids)


class Replay:
    """One request's generation, all choices alike. tokens: what each choice generates."""

    def __init__(
        self,
        request: JsonDict,
        context: Any,
        token_ids: Sequence[int],
        ending: Ending,
        tokens_per_chunk: int,
        pace: float,
    ) -> None:
        self._context = context
        self._prompt_tokens = len(request["token_ids"])
        self._running = set(range((request.get("sampling_options") or {}).get("n") or 1))
        self._sent = dict.fromkeys(self._running, 0)  # tokens handed over
        self._groups = dict.fromkeys(self._running, 1)
        self._logprobs = (request.get("output_options") or {}).get("logprobs") is not None
        self._token_ids = token_ids
        self._ending = ending
        self._tokens_per_chunk = tokens_per_chunk
        self._pace = pace
        self._generated = 0

    async def abort(self, index: int) -> None:
        """Generate no more of choice `index`."""
        self._running.discard(index)

    def set_stream_interval(self, index: int, tokens: int) -> None:
        """Hand over the tokens of a choice in groups of this many."""
        self._groups[index] = tokens

    async def outputs(self) -> AsyncIterator[JsonDict]:
        """Yield the outputs, of the form of Dynamo's vLLM handler, until all choices end or the client is gone."""
        start = asyncio.get_running_loop().time()
        total = len(self._token_ids)
        for position in range(0, total, self._tokens_per_chunk):
            await self._step(start, position)
            end = min(position + self._tokens_per_chunk, total)
            for index in sorted(self._running):
                if self._context.is_stopped():
                    return
                sent = self._sent[index]
                if index in self._running and (
                    not sent or end == total or end - sent >= self._groups[index]
                ):
                    self._sent[index] = end
                    yield self._output(index, sent, end)
            if not self._running:
                return

    async def _step(self, start: float, position: int) -> None:
        """Wait for the engine step of this token; also at full speed all streams take turns."""
        late = asyncio.get_running_loop().time() - start
        await asyncio.sleep(max(0.0, position / self._pace - late) if self._pace else 0)

    def _output(self, index: int, start: int, end: int) -> JsonDict:
        token_ids = list(self._token_ids[start:end])
        self._generated += len(token_ids)
        output: JsonDict = {"index": index, "token_ids": token_ids}
        last = end == len(self._token_ids)
        if self._logprobs:
            # A recording is certain of itself.
            output["log_probs"] = [0.0] * len(token_ids)
            output["top_logprobs"] = [
                [{"rank": 1, "token_id": token_id, "logprob": 0.0}] for token_id in token_ids
            ]
        if start == 0 or last:
            output["completion_usage"] = {
                "prompt_tokens": self._prompt_tokens,
                "completion_tokens": self._generated,
                "total_tokens": self._prompt_tokens + self._generated,
            }
        if last:
            output["finish_reason"] = self._ending.finish_reason
            if self._ending.stop_reason is not None:
                output["stop_reason"] = self._ending.stop_reason
        return output


class ReplayWorker:
    """Answers requests; with a postprocessor, as `backedge.worker.adapters.vllm` does around vLLM."""

    def __init__(self, engine: ReplayEngine, postprocessor: WorkerPostprocessor | None) -> None:
        self._engine = engine
        self._postprocessor = postprocessor

    async def generate(self, request: JsonDict, context: Any) -> AsyncIterator[JsonDict]:
        """Yield the outputs of one request, post-processed if it carries a spec; the endpoint's handler."""
        # What is raised before the first `anext` counts in Dynamo as the death of the worker, not as a refusal.
        replay = self._engine.start(request, context)
        outputs = replay.outputs()
        params = read_params(request)
        if params is not None and self._postprocessor is not None:
            outputs = self._postprocessor.stream(outputs, params, request["token_ids"], replay)
        async for output in outputs:
            yield output


class Card(msgspec.Struct, frozen=True, kw_only=True):
    """What the worker says of its model. worker_card: None for a worker that does not post-process."""

    folder: Path
    name: str
    context_length: int | None = None
    worker_card: WorkerCard | None = None
    dyn_tool_call_parser: str | None = None
    dyn_reasoning_parser: str | None = None

    def runtime_config(self) -> ModelRuntimeConfig:
        """Return Dynamo's form of it."""
        config = ModelRuntimeConfig()
        config.context_length = self.context_length
        config.tool_call_parser = self.dyn_tool_call_parser
        config.reasoning_parser = self.dyn_reasoning_parser
        # As a vLLM worker says by default; without it the stock Python frontend merges 20 tokens.
        config.set_engine_specific("stream_interval", "1")
        if self.worker_card is not None:
            # The binding parses JSON; ours travels as one string, as in the messages.
            config.set_engine_specific(KEY, json.dumps(encode(self.worker_card)))
        return config


async def serve(
    worker: ReplayWorker, card: Card, flags: argparse.Namespace, metrics: WorkerMetrics
) -> None:
    """Register the model and answer requests until the process is asked to end. flags: see `add_runtime_flags`."""
    runtime, loop = create_runtime(flags.discovery_backend, flags.request_plane)
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, runtime.shutdown)
    endpoint = runtime.endpoint(f"{flags.namespace}.backend.generate")
    metrics.expose(endpoint)
    await register_model(
        ModelInput.Tokens,
        ModelType.Chat,
        endpoint,
        str(card.folder),
        card.name,
        kv_cache_block_size=KV_BLOCK_TOKENS,
        runtime_config=card.runtime_config(),
        worker_type=WorkerType.Aggregated,
    )
    runtime.set_health_status(ready=True)
    await endpoint.serve_endpoint(worker.generate)


def add_runtime_flags(parser: argparse.ArgumentParser) -> None:
    """Add those of Dynamo's own flags that mean something here, with Dynamo's variables and defaults."""
    for flag, variable, default in (
        ("--namespace", "DYN_NAMESPACE", "dynamo"),
        ("--discovery-backend", "DYN_DISCOVERY_BACKEND", "etcd"),
        ("--request-plane", "DYN_REQUEST_PLANE", "tcp"),
        ("--dyn-tool-call-parser", "DYN_TOOL_CALL_PARSER", None),
        ("--dyn-reasoning-parser", "DYN_REASONING_PARSER", None),
    ):
        parser.add_argument(
            flag, default=os.environ.get(variable, default), help=f"Dynamo's; default: {variable}"
        )


def arguments() -> argparse.ArgumentParser:
    """Return the command line's parser."""
    parser = argparse.ArgumentParser(prog="python -m backedge.worker.replay", allow_abbrev=False)
    parser.description = (
        "A Dynamo worker without a model: it replays recorded outputs as token streams."
    )
    parser.add_argument(
        "--model", type=Path, default=EXAMPLES / "tiny_model", help="folder with tokenizer.json"
    )
    parser.add_argument("--served-model-name", help="default: the folder's name")
    parser.add_argument(
        "--transcripts", type=Path, default=EXAMPLES / "transcripts", help="folder of .jsonl files"
    )
    parser.add_argument(
        "--tokens-per-second",
        type=float,
        default=0.0,
        help="of one stream; 0 (default): full speed",
    )
    parser.add_argument("--tokens-per-chunk", type=int, default=1, help="default: 1")
    parser.add_argument(
        "--plain", action="store_true", help="leave post-processing to the frontend"
    )
    for names, options in list_flags("vllm"):
        if names[0] in SHARED_FLAGS:
            parser.add_argument(*names, **options)
    parser.add_argument("--reasoning-parser", help="Reasoning parser of the model.")
    add_runtime_flags(parser)
    return parser


def build_postprocessor(
    files: ModelFiles, flags: argparse.Namespace, metrics: WorkerMetrics
) -> WorkerPostprocessor:
    """Return the post-processing with the linear parsers that the flags name. Raises `UnknownParserError`."""
    parsers = linear_parsers(read_parser_names(flags), read_vocabulary(files.tokenizer))
    on_error: OnError = flags.postprocess_on_error
    backend = InlineBackend(
        detokenizers(files.tokenizer), parsers, parse_merge_delays(flags), on_error, metrics.report
    )
    return WorkerPostprocessor(backend, metrics)


def read_worker_card(flags: argparse.Namespace) -> WorkerCard:
    """Return what the frontend is told."""
    names = read_parser_names(flags)
    return WorkerCard(
        engine="replay",
        engine_version=importlib.metadata.version("backedge"),
        tool_call_parser=names.tool_call,
        reasoning_parser=names.reasoning,
    )


def build(flags: argparse.Namespace, metrics: WorkerMetrics) -> tuple[ReplayWorker, Card]:
    """Return the worker and its card. Raises `SetupError` for flags that cannot be."""
    if flags.tokens_per_chunk < 1 or flags.tokens_per_second < 0:
        raise SetupError("--tokens-per-chunk takes 1 or more, --tokens-per-second 0 or more.")
    files = ModelFiles(flags.model)
    engine = ReplayEngine(
        Recordings(files, read_transcripts(flags.transcripts)).find,
        tokens_per_second=flags.tokens_per_second,
        tokens_per_chunk=flags.tokens_per_chunk,
        eos_token_ids=files.eos_token_ids,
    )
    card = Card(
        folder=flags.model,
        name=flags.served_model_name or flags.model.resolve().name,
        context_length=files.context_length,
        worker_card=None if flags.plain else read_worker_card(flags),
        dyn_tool_call_parser=flags.dyn_tool_call_parser,
        dyn_reasoning_parser=flags.dyn_reasoning_parser,
    )
    return ReplayWorker(
        engine, None if flags.plain else build_postprocessor(files, flags, metrics)
    ), card


def main() -> None:
    """Run the worker."""
    flags = arguments().parse_args()
    configure_dynamo_logging()
    metrics = WorkerMetrics()
    try:
        worker, card = build(flags, metrics)
    except BackedgeError as error:
        sys.exit(str(error))
    uvloop.run(serve(worker, card, flags, metrics))


if __name__ == "__main__":
    main()
