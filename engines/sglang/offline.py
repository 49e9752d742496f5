"""The back end of SGLang, with its `Engine`: token ids in, token ids out.

A row whose text may end it is streamed and aborted as soon as the core finds its end; the others
come in one piece. SGLang supports grammars only with a tokenizer, so its detokenizer also runs, but
its text is unused.
"""

from __future__ import annotations

import asyncio
import inspect
import itertools
import json
import secrets
import signal
import threading
from collections.abc import Generator, Iterator, Mapping, Sequence
from typing import Any, ClassVar

from typing_extensions import override

from ...base.limits import MAX_HELD_ROWS
from ...base.parent_death import start_engine
from ...base.ranges import INT_64
from ...base.seams import check_seams
from ...guided.call_policy import to_tag_format
from ...offline.completion import Completion, FinishReason, TokenLogprobs, read_finish
from ...offline.contracts import (
    EngineDiedError,
    ModelLoadConfig,
    OptionValueError,
    check_names,
)
from ...offline.inference_backend import (
    EMBEDDINGS,
    GUIDED,
    LOGPROBS,
    LORA,
    SEEDS,
    Backend,
    loads,
    needs,
)
from ...offline.model_text import ModelText, open_text
from ...offline.plugins.base import Plugin
from ...offline.rows import Row, RowFailure, Sampling, build_request_id, find_row_error
from ...parsers.api import Engine
from ...postprocess.messages import EngineLogprob
from . import seams

# Fields of the configuration by SGLang's names, and arguments that this back end sets.
CONFIGURED = set(
    "model_path dtype revision trust_remote_code context_length skip_tokenizer_init "
    "incremental_streaming_output custom_sigquit_handler".split()
)
# A limit that no vocabulary reaches, and that SGLang does not read as none.
EVERY_TOKEN = (1 << 30) - 1
# Number of tokens between two outputs of a row that is read as a whole.
WHOLE = 1 << 30


class SglangBackend(Backend):
    """Generates with SGLang. Its engine_args: the fields of SGLang's `ServerArgs`.

    engine: SGLang's; None before it is loaded. death: set when one of its processes ends.
    """

    name: ClassVar[str] = "sglang"
    native: ClassVar[Engine | None] = "sglang"
    capabilities: ClassVar[frozenset[str]] = frozenset({LOGPROBS, GUIDED, SEEDS, LORA, EMBEDDINGS})
    remedies: ClassVar[Mapping[str, str]] = {
        SEEDS: "set engine_args enable_deterministic_inference=true"
    }

    def __init__(self, config: ModelLoadConfig, plugins: Sequence[Plugin] = ()) -> None:
        super().__init__(config, plugins)
        check_names("SGLang", config.engine_args, list_arguments())
        is_cpu = config.engine_args.get("device") == "cpu"
        if self._takes_seeds and is_cpu and "attention_backend" not in config.engine_args:
            # SGLang would take a GPU's, and fail when the weights are loaded.
            name = "engine_args.enable_deterministic_inference"
            raise OptionValueError.wrong(name, value=True, expected="false for the device 'cpu'")
        self.engine: Any = None
        self._eos_token_ids: Sequence[int] = ()
        self.death = asyncio.Event()

    @override
    def can(self, capability: str) -> bool:
        # SGLang otherwise ignores the seeds of requests.
        return super().can(capability) and (capability != SEEDS or self._takes_seeds)

    @property
    def _takes_seeds(self) -> bool:
        return bool(self.config.engine_args.get("enable_deterministic_inference"))

    @override
    def open(self) -> ModelText:
        text = open_text(self.config)
        self._eos_token_ids = text.eos_token_ids
        return text

    @override
    def load(self) -> None:
        check_seams(seams.OFFLINE, seams.PACKAGES)
        import sglang

        config = self.config
        on_sigterm = signal.getsignal(signal.SIGTERM)
        adapters = {name: str(folder) for name, folder in config.lora.items()}
        arguments = {
            "log_level": "error",
            "model_path": str(config.model),
            "dtype": config.dtype,
            "revision": config.revision,
            "trust_remote_code": config.trust_remote_code,
            "context_length": config.max_model_len,
            # Without a tokenizer SGLang supports no grammars.
            "skip_tokenizer_init": False,
            "incremental_streaming_output": True,
            # SGLang's own handler kills this process.
            "custom_sigquit_handler": signal.SIG_IGN,
            **({"lora_paths": adapters} if adapters and not self.embeds else {}),
            "is_embedding": self.embeds,
            **config.engine_args,
        }
        death = self.death
        with loads("SGLang", config.model):
            self.engine = start_engine(
                lambda: sglang.Engine(**arguments),
                lambda engine: engine.loop.call_soon_threadsafe(death.set),
            )
        self.engine.loop.run_until_complete(self._take_signals_back(on_sigterm))

    async def _take_signals_back(self, on_sigterm: Any) -> None:
        """Undo what SGLang would do to this process's signals at the first request."""
        # This uses the running loop, which must be the engine's.
        self.engine.tokenizer_manager.auto_create_handle_loop()
        if threading.current_thread() is threading.main_thread():
            for number, handler in ((signal.SIGTERM, on_sigterm), (signal.SIGQUIT, signal.SIG_IGN)):
                self.engine.loop.remove_signal_handler(number)
                signal.signal(number, handler)

    @override
    def close(self) -> None:
        engine, self.engine = self.engine, None
        self.death = asyncio.Event()
        if engine is not None:
            engine.shutdown()

    @override
    def generate(self, rows: Iterator[Row]) -> Generator[Row, None, None]:
        loop = self.engine.loop
        running: dict[asyncio.Task[None], Row] = {}
        death = loop.create_task(self.death.wait())
        try:
            while True:
                for row in itertools.islice(rows, MAX_HELD_ROWS - len(running)):
                    if row.error is None:
                        running[loop.create_task(self._run(row))] = row
                    else:
                        yield row
                if not running:
                    return
                waiting = asyncio.wait({*running, death}, return_when=asyncio.FIRST_COMPLETED)
                done, _ = loop.run_until_complete(waiting)
                if death in done:
                    raise EngineDiedError("SGLang")
                for task in done:
                    row = running.pop(task)
                    _read_failure(task, row)
                    yield row
        finally:
            for task in {*running, death}:
                task.cancel()
            loop.run_until_complete(asyncio.gather(*running, death, return_exceptions=True))

    @override
    def embed(self, inputs: Sequence[list[int]]) -> list[list[float]]:
        vectors: list[list[float]] = self.engine.loop.run_until_complete(self._embed(inputs))
        return vectors

    async def _embed(self, inputs: Sequence[list[int]]) -> list[list[float]]:
        from sglang.srt.managers.io_struct import EmbeddingReqInput

        request = EmbeddingReqInput(input_ids=list(inputs))
        outputs = self.engine.tokenizer_manager.generate_request(request, None)
        running = asyncio.ensure_future(anext(outputs))
        death = asyncio.ensure_future(self.death.wait())
        try:
            await asyncio.wait({running, death}, return_when=asyncio.FIRST_COMPLETED)
            if death.done():
                raise EngineDiedError("SGLang")
            return [output["embedding"] for output in running.result()]
        finally:
            running.cancel()
            death.cancel()

    async def _run(self, row: Row) -> None:
        tasks = [asyncio.ensure_future(self._run_choice(row, choice)) for choice in row.completions]
        try:
            await asyncio.gather(*tasks)
        finally:
            # If one choice fails, so does the row; the results of the others are unused.
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _run_choice(self, row: Row, completion: Completion) -> None:
        request_id = build_request_id(row, completion)
        wants = row.sampling.logprobs
        outputs = await self.engine.async_generate(
            input_ids=list(row.prompt.token_ids),
            sampling_params=self._build_params(row, completion.index),
            return_logprob=wants is not None,
            top_logprobs_num=wants or 0,
            lora_path=row.lora,
            stream=True,
            rid=request_id,
        )
        abort = self.engine.tokenizer_manager.abort_request
        finished = False
        try:
            async for output in outputs:
                reason = output["meta_info"]["finish_reason"]
                finished = reason is not None
                if finished and reason["type"] == "abort" and not completion.finished:
                    raise ValueError(str(reason.get("message") or "the request was aborted"))
                was_finished = completion.finished
                token_ids = output["output_ids"]
                logprobs = (
                    _read_logprobs(output["meta_info"], token_ids) if wants is not None else None
                )
                completion.feed(token_ids, logprobs, ended=_read_end(reason))
                if completion.finished and not (was_finished or finished):
                    abort(request_id)
        except asyncio.CancelledError:
            abort(request_id)
            raise

    def _build_params(self, row: Row, index: int) -> dict[str, Any]:
        sampling = row.sampling
        params = build_grammar_params(row) | {
            **sampling.common,
            "top_k": sampling.top_k or -1,
            "logit_bias": {str(each): bias for each, bias in sampling.logit_bias} or None,
            "max_new_tokens": row.max_new_tokens,
            "min_new_tokens": sampling.min_tokens,
            "stop_token_ids": [*self._eos_token_ids, *row.stop_token_ids],
            # It ignores stop tokens as well if it ignores the model's own.
            "stream_interval": 1 if row.needs_steps or sampling.ignore_eos else WHOLE,
        }
        if self._takes_seeds:
            params |= _build_seed(sampling, index)
        return {name: value for name, value in params.items() if value is not None}


def _build_seed(sampling: Sampling, index: int) -> dict[str, int]:
    """Build the parameters of one choice's seed, for SGLang's deterministic mode.

    Raises `RowFailure` for `min_p`, for which SGLang's scheduler would end.
    """
    if sampling.min_p:
        wrong = f"min_p={sampling.min_p} excludes enable_deterministic_inference; set min_p to 0."
        raise RowFailure("request", wrong)
    # Without a seed, SGLang would give each choice the same one.
    seed = secrets.randbits(32) if sampling.seed is None else sampling.seed
    # SGLang draws from the tokens in another order if any row of its batch has a limit.
    return {"sampling_seed": (seed + index) & INT_64, "top_k": sampling.top_k or EVERY_TOKEN}


def build_grammar_params(row: Row) -> dict[str, Any]:
    """Build SGLang's parameters for the row's grammar."""
    if row.grammar is None:
        return {}
    [(kind, value)] = row.grammar.guided.items()
    match kind:
        case "json":
            return {"json_schema": json.dumps(value)}
        case "regex":
            return {"regex": value}
        case "grammar":
            return {"ebnf": value}
        case "choice":
            value = {"type": "structural_tag", "format": to_tag_format(row.grammar.guided)}
    return {"structural_tag": json.dumps(value)}


def _read_failure(task: asyncio.Task[None], row: Row) -> None:
    error = task.exception()
    if isinstance(error, Exception):
        row.error = find_row_error(error, "generation", "SGLang")
    elif error is not None:
        raise error


def _read_end(reason: Mapping[str, object] | None) -> FinishReason | None:
    return None if reason is None else read_finish(reason["type"])


def _read_logprobs(meta: dict[str, Any], token_ids: Sequence[int]) -> TokenLogprobs:
    count = len(token_ids)
    own = meta["output_token_logprobs"][-count:] if count else []
    top = (meta.get("output_top_logprobs") or [[]] * len(own))[-count:] if count else []
    lists = []
    for (value, token_id, _), alternatives in zip(own, top, strict=True):
        entries = [
            EngineLogprob(other, rank, float(logprob))
            for rank, (logprob, other, _) in enumerate(alternatives or [], 1)
        ]
        if token_id not in [entry.token_id for entry in entries]:
            entries.append(EngineLogprob(token_id, None, float(value)))
        lists.append(entries)
    return TokenLogprobs([float(value) for value, *_ in own], lists)


def list_arguments() -> list[str]:
    """Return the names of this back end's arguments in the installed SGLang.

    Raises `BackendUnavailableError` without SGLang.
    """
    with needs("sglang", "SGLang", "'.[sglang]' in a checkout of Backedge"):
        from sglang.srt.server_args import ServerArgs
    return sorted(set(inspect.signature(ServerArgs).parameters) - CONFIGURED)
