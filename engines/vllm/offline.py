"""The back end of vLLM, in this process: token ids in, token ids out.

vLLM does not detokenize here. A row whose text may end it gets its tokens step by step, and ends
the engine's request as soon as the core finds its end; the others get all tokens at once.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import json
import typing
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import msgspec
from typing_extensions import override

from ...base.limits import MAX_HELD_PIXELS, MAX_HELD_ROWS
from ...base.log import get_logger
from ...base.parent_death import adopt_engine, start_engine
from ...base.seams import check_seams
from ...offline.completion import Completion, TokenLogprobs, read_finish
from ...offline.contracts import EngineDiedError, ModelLoadConfig, PluginError, check_names
from ...offline.inference_backend import (
    EMBEDDINGS,
    GUIDED,
    LOGITS,
    LOGPROBS,
    LORA,
    SEEDS,
    VLM,
    loads,
    needs,
)
from ...offline.model_text import ModelText, open_text
from ...offline.plugins.base import Plugin
from ...offline.results import RowError
from ...offline.rows import Row, RowFailure, build_request_id, find_row_error
from ...offline.vision import VisionBackend
from ...parsers.api import Engine
from ...postprocess.messages import EngineLogprob
from ...tokenization.model_files import ModelFolder
from . import seams

logger = get_logger(__name__)


class AdapterConfig(msgspec.Struct):
    """The adapter_config.json of an adapter. r: its rank."""

    r: int = 1


# Arguments that a user cannot pass: the configuration has most of them; with a reasoning parser,
# vLLM would wait for the end of the reasoning, which is part of the rows' grammars.
CONFIGURED = set(
    "model dtype revision trust_remote_code max_model_len reasoning_parser "
    "reasoning_parser_plugin".split()
)
# Finish reasons of requests that vLLM ended without an answer, for example for a failed grammar.
GIVEN_UP = ("error", "abort")


class VllmBackend(VisionBackend):
    """Generates with vLLM. Its engine_args: the fields of vLLM's `EngineArgs`.

    llm: vLLM's `LLM`; None before it is loaded.
    """

    name: ClassVar[str] = "vllm"
    native: ClassVar[Engine | None] = "vllm"
    capabilities: ClassVar[frozenset[str]] = frozenset(
        {LOGPROBS, LOGITS, VLM, GUIDED, SEEDS, LORA, EMBEDDINGS}
    )

    def __init__(self, config: ModelLoadConfig, plugins: Sequence[Plugin] = ()) -> None:
        super().__init__(config, plugins)
        check_names("vLLM", config.engine_args, list_arguments())
        self.llm: Any = None

    @override
    def check_plugins(self, plugins: Sequence[Plugin]) -> None:
        for plugin in plugins:
            if "logits_processor" in plugin.hooks and plugin not in self.plugins:
                raise PluginError(
                    f"plugin {plugin.name!r} changes logits, which vLLM must know when it "
                    "loads; give it to GenerationEngine(config, plugins=[...])."
                )
        for plugin in self.plugins:
            if "logits_processor" in plugin.hooks and plugin not in plugins:
                raise PluginError(
                    f"plugin {plugin.name!r} changes logits, which vLLM does in all batches; pass "
                    "it to this one as well, or create a GenerationEngine without it."
                )

    @override
    def open(self) -> ModelText:
        return open_text(self.config)

    @override
    def load(self) -> None:
        check_seams(seams.OFFLINE, seams.PACKAGES)
        from vllm import LLM
        from vllm.platforms import current_platform
        from vllm.v1.engine.exceptions import EngineDeadError

        config = self.config
        processors = [
            processor
            for plugin in self.plugins
            if (processor := plugin.logits_processor(self.name)) is not None
        ]
        adopt_engine()
        lora = bool(config.lora) and not self.embeds
        arguments = {
            "model": str(config.model),
            "dtype": config.dtype,
            "revision": config.revision,
            "trust_remote_code": config.trust_remote_code,
            "max_model_len": config.max_model_len,
            **({"logits_processors": processors} if processors else {}),
            **({"enable_lora": True, "max_lora_rank": find_rank(config)} if lora else {}),
            **({"runner": "pooling"} if self.embeds else {}),
            # There, vLLM dies of a row with a seed whose prompt it reads in parts.
            **({"enable_chunked_prefill": False} if current_platform.is_cpu() else {}),
            **config.engine_args,
        }
        with loads("vLLM", config.model):
            self.llm = start_engine(
                lambda: LLM(**arguments),
                # A `step` would wait for ever for an engine that no longer exists.
                lambda llm: llm.llm_engine.engine_core.outputs_queue.put(EngineDeadError()),
            )

    @override
    def close(self) -> None:
        llm, self.llm = self.llm, None
        if llm is not None:
            llm.llm_engine.engine_core.shutdown()

    @override
    def generate(self, rows: Iterator[Row]) -> Generator[Row, None, None]:
        from vllm.v1.engine.exceptions import EngineDeadError

        running = _Requests(self.llm.llm_engine, self._build_prompt, build_adapters(self.config))
        try:
            while True:
                for row in itertools.islice(rows, running.room):
                    if row.error is None:
                        running.add(row)
                    else:
                        yield row
                    if not running.room:
                        break
                yield from running.take_done()
                if not running.rows:
                    return
                running.step()
        except EngineDeadError as error:
            raise EngineDiedError("vLLM") from error
        finally:
            with contextlib.suppress(EngineDeadError):
                running.abort()

    @override
    def embed(self, inputs: Sequence[list[int]]) -> list[list[float]]:
        from vllm.v1.engine.exceptions import EngineDeadError

        prompts = [{"prompt_token_ids": token_ids} for token_ids in inputs]
        try:
            outputs = self.llm.embed(prompts, use_tqdm=False)
        except EngineDeadError as error:
            raise EngineDiedError("vLLM") from error
        return [output.outputs.embedding for output in outputs]

    def _build_prompt(self, row: Row) -> dict[str, Any]:
        """Return the prompt in vLLM's form; for images, vLLM computes the tokens."""
        prompt = row.prompt
        if not prompt.images or self._vision is None:
            return {"prompt_token_ids": prompt.token_ids}
        encode = self._vision.processor.tokenizer.encode
        # vLLM computes these itself.
        prompt.inputs.clear()
        return {
            "prompt_token_ids": encode(prompt.text, add_special_tokens=False),
            "multi_modal_data": {"image": prompt.images},
            "mm_processor_kwargs": self._vision.arguments,
        }


class _Requests:
    """The requests in the engine, one per choice of each row. rows: number of rows."""

    def __init__(
        self,
        engine: Any,
        build_prompt: Callable[[Row], dict[str, Any]],
        adapters: Mapping[str | None, object],
    ) -> None:
        self._engine = engine
        self._adapters = adapters
        self._build_prompt = build_prompt
        self._choices: dict[str, tuple[Row, Completion]] = {}
        self._pixels = 0  # of the rows' images
        self._left: dict[int, int] = {}  # by the row's index: number of unfinished choices
        self._done: list[Row] = []

    @property
    def rows(self) -> int:
        return len(self._left)

    @property
    def room(self) -> int:
        """Number of rows that may be added; with large images, each may be the last."""
        return MAX_HELD_ROWS - self.rows if self._pixels < MAX_HELD_PIXELS else 0

    def add(self, row: Row) -> None:
        """Start a row; if the engine rejects it, it is done, with its error."""
        from vllm.v1.engine.exceptions import EngineDeadError

        self._left[row.index] = len(row.completions)
        self._pixels += row.prompt.pixels
        for completion in row.completions:
            request_id = build_request_id(row, completion)
            try:
                prompt = self._build_prompt(row)
                if self._adapters and row.lora is None:
                    check_plain_row()
                self._engine.add_request(
                    request_id,
                    prompt,
                    build_params(row, completion.index),
                    lora_request=self._adapters.get(row.lora),
                )
            except EngineDeadError:
                raise
            except Exception as error:  # noqa: BLE001 - it is this row's
                row.error = find_row_error(error, "generation", "vLLM")
                self._drop(row)
                return
            self._choices[request_id] = row, completion

    def step(self) -> None:
        """Run the engine for one step, and feed its outputs."""
        for output in self._engine.step():
            found = self._choices.get(output.request_id)
            if found is None:
                continue  # aborted in this step
            row, completion = found
            [part] = output.outputs
            if part.finish_reason in GIVEN_UP:
                row.error = RowError("generation", "vLLM aborted the row; its log has the reason.")
                self._drop(row)
                continue
            ended = read_finish(part.finish_reason) if output.finished else None
            completion.feed(part.token_ids, _read_logprobs(part), ended=ended)
            if completion.finished:
                del self._choices[output.request_id]
                if not output.finished:
                    self._engine.abort_request([output.request_id])
                self._end_choice(row)

    def take_done(self) -> list[Row]:
        """Return the rows that are done since the last call."""
        done, self._done = self._done, []
        return done

    def abort(self) -> None:
        """Abort all requests."""
        self._engine.abort_request(list(self._choices))
        self._choices.clear()
        self._left.clear()

    def _end_choice(self, row: Row) -> None:
        self._left[row.index] -= 1
        if not self._left[row.index]:
            self._finish(row)

    def _drop(self, row: Row) -> None:
        own = [request_id for request_id, (of, _) in self._choices.items() if of is row]
        self._engine.abort_request(own)
        for request_id in own:
            del self._choices[request_id]
        self._finish(row)

    def _finish(self, row: Row) -> None:
        del self._left[row.index]
        self._pixels -= row.prompt.pixels
        self._done.append(row)


def build_adapters(config: ModelLoadConfig) -> dict[str | None, object]:
    """Build vLLM's requests for adapters, by their names."""
    from vllm.lora.request import LoRARequest

    return {
        name: LoRARequest(name, number, str(folder))
        for number, (name, folder) in enumerate(config.lora.items(), 1)
    }


def check_plain_row() -> None:
    """Raise `RowFailure` for a row without an adapter, beside adapters, on a CPU.

    vLLM's kernels for a CPU take the index -1, which stands for no adapter, for the last adapter.
    """
    from vllm.platforms import current_platform

    if current_platform.is_cpu():
        found = "vLLM on a CPU would answer a row without an adapter by one of those of lora"
        raise RowFailure("request", f"{found}; run such rows without lora.")


def find_rank(config: ModelLoadConfig) -> int:
    """Return the least rank that vLLM supports and that includes those of all adapters."""
    from vllm.config.lora import MaxLoRARanks

    folders = map(Path, config.lora.values())
    ranks = [ModelFolder(each).read("adapter_config.json", AdapterConfig).r for each in folders]
    supported: list[int] = sorted(typing.get_args(MaxLoRARanks))
    return next((rank for rank in supported if rank >= max(ranks)), supported[-1])


def build_params(row: Row, index: int) -> Any:
    """Build vLLM's SamplingParams for one choice of a row."""
    from vllm import SamplingParams
    from vllm.sampling_params import RequestOutputKind

    sampling = row.sampling
    return SamplingParams(
        **sampling.common,
        top_k=sampling.top_k,
        logit_bias=dict(sampling.logit_bias) or None,
        min_tokens=sampling.min_tokens,
        # As vLLM does for n choices: each has its own seed.
        seed=None if sampling.seed is None else sampling.seed + index,
        max_tokens=row.max_new_tokens,
        stop_token_ids=list(row.stop_token_ids),
        logprobs=sampling.logprobs,
        detokenize=False,
        structured_outputs=build_structured_outputs(row),
        output_kind=RequestOutputKind.DELTA if row.needs_steps else RequestOutputKind.FINAL_ONLY,
    )


def build_structured_outputs(row: Row) -> Any:
    """Build vLLM's parameters for the row's grammar; None for no grammar."""
    from vllm.sampling_params import StructuredOutputsParams

    if row.grammar is None:
        return None
    [(kind, value)] = row.grammar.guided.items()
    is_text = kind in ("regex", "grammar", "choice")
    return StructuredOutputsParams(**{kind: value if is_text else json.dumps(value)})


def _read_logprobs(part: Any) -> TokenLogprobs | None:
    if part.logprobs is None:
        return None
    token_ids = part.token_ids
    return TokenLogprobs(
        [
            float(entry[token_id].logprob)
            for token_id, entry in zip(token_ids, part.logprobs, strict=True)
        ],
        [
            [
                EngineLogprob(token_id, known.rank, float(known.logprob))
                for token_id, known in entry.items()
            ]
            for entry in part.logprobs
        ],
    )


def list_arguments() -> list[str]:
    """Return the names of this back end's arguments in the installed vLLM.

    Raises `BackendUnavailableError` without vLLM.
    """
    with needs("vllm", "vLLM", "'.[vllm]' in a checkout of Backedge"):
        from vllm.engine.arg_utils import EngineArgs
    return sorted({field.name for field in dataclasses.fields(EngineArgs)} - CONFIGURED)
