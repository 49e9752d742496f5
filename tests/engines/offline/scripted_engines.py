"""Stand-ins for vLLM's and SGLang's engines, which give every request the same tokens."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from types import SimpleNamespace
from typing import Any

import pytest
from backedge.engines.sglang.offline import SglangBackend
from backedge.engines.vllm.offline import VllmBackend
from backedge.offline import GenerationEngine, ModelLoadConfig
from vllm.exceptions import VLLMValidationError
from vllm.logprobs import Logprob
from vllm.sampling_params import RequestOutputKind
from vllm.v1.engine.exceptions import EngineDeadError

from tests.offline.batches import LETTERS
from tests.support import TINY_MODEL, encode

TOKENS = encode(LETTERS["output"])
NAMES = ("vllm", "sglang")


class ScriptedEngine:
    """What both have. Of a request's id, the row and the choice stand at its end.

    refused: the ends of request ids that are refused. gives_up: the ends of those that the engine
        ends itself after some tokens.
    asked: parameters of all requests. lora: their adapters, with vLLM the folders. ids: those of
        all. aborted: ids. dies: instead of embedding.
    held: the most requests at once. loads: how often it was loaded.
    """

    def __init__(self, refused: Sequence[str] = (), gives_up: Sequence[str] = ()) -> None:
        self.refused, self.gives_up = tuple(refused), tuple(gives_up)
        self.asked: list[Any] = []
        self.ids: list[str] = []
        self.lora: list[str | None] = []
        self.aborted: list[str] = []
        self.running: dict[str, Any] = {}
        self.held = self.loads = 0
        self.dies = False

    def begin(self, request_id: str, state: Any) -> None:
        self.ids.append(request_id)
        self.running[request_id] = state
        self.held = max(self.held, len(self.running))

    def install(self, backend: Any) -> None:
        """Take the place of a loaded engine."""
        raise NotImplementedError


class ScriptedVllm(ScriptedEngine):
    """vLLM's `LLMEngine`: one token of each request in a step."""

    def install(self, backend: Any) -> None:
        backend.llm = SimpleNamespace(llm_engine=self, embed=self.embed)
        self.engine_core = SimpleNamespace(shutdown=lambda: None)

    def embed(self, prompts: Sequence[Any], *, use_tqdm: bool) -> list[Any]:
        assert not use_tqdm
        if self.dies:
            raise EngineDeadError
        sizes = [float(len(prompt["prompt_token_ids"])) for prompt in prompts]
        return [SimpleNamespace(outputs=SimpleNamespace(embedding=[size])) for size in sizes]

    def add_request(
        self, request_id: str, _: Any, params: Any, *, lora_request: Any = None
    ) -> None:
        if request_id.endswith(self.refused):
            raise VLLMValidationError("too long for me")
        self.asked.append(params)
        self.lora.append(lora_request and lora_request.path)
        self.begin(request_id, [params, 0])

    def abort_request(self, request_ids: Sequence[str]) -> None:
        for request_id in request_ids:
            self.aborted.append(request_id)
            self.running.pop(request_id, None)

    def step(self) -> list[Any]:
        outputs = []
        for request_id, (params, taken) in list(self.running.items()):
            end = min(taken + 1, len(TOKENS), params.max_tokens)
            gives_up = end > 2 and request_id.endswith(self.gives_up)
            finished = gives_up or end == min(len(TOKENS), params.max_tokens)
            self.running[request_id][1] = end
            if finished:
                del self.running[request_id]
            delta = params.output_kind == RequestOutputKind.DELTA
            if delta or finished:
                part = [] if gives_up else TOKENS[taken if delta else 0 : end]
                outputs.append(self._output(request_id, params, part, finished, gives_up))
        return outputs

    def _output(
        self, request_id: str, params: Any, token_ids: list[int], finished: bool, gives_up: bool
    ) -> Any:
        logprobs = None
        if params.logprobs is not None:
            logprobs = [{token_id: Logprob(-0.5, 1)} for token_id in token_ids]
        reason = "error" if gives_up else "stop" if finished else None
        part = SimpleNamespace(token_ids=token_ids, logprobs=logprobs, finish_reason=reason)
        return SimpleNamespace(request_id=request_id, outputs=[part], finished=finished)


class ScriptedSglang(ScriptedEngine):
    """SGLang's `Engine`, and its tokenizer manager."""

    def install(self, backend: Any) -> None:
        self.backend = backend
        backend.engine = self
        self.loop = asyncio.new_event_loop()
        self.tokenizer_manager = self

    def abort_request(self, request_id: str) -> None:
        self.aborted.append(request_id)

    def shutdown(self) -> None:
        self.loop.close()

    async def generate_request(self, request: Any, _: object) -> AsyncIterator[Any]:
        if self.dies:
            self.backend.death.set()  # as the end of its process does
            await asyncio.Event().wait()
        yield [{"embedding": [float(len(token_ids))]} for token_ids in request.input_ids]

    async def async_generate(
        self, *, sampling_params: dict[str, Any], rid: str, lora_path: str | None, **asked: Any
    ) -> AsyncIterator[Any]:
        self.lora.append(lora_path)
        self.asked.append({**sampling_params, **asked})
        return self._outputs(sampling_params, rid)

    async def _outputs(self, params: dict[str, Any], rid: str) -> AsyncIterator[Any]:
        self.begin(rid, params)
        try:
            await asyncio.sleep(0)
            if rid.endswith(self.refused):
                raise ValueError("too long for me")
            step = min(params["stream_interval"], len(TOKENS))
            for start in range(0, len(TOKENS), step):
                await asyncio.sleep(0)
                given_up = rid.endswith(self.gives_up) and max(start, step) > 2
                if given_up or rid.startswith(tuple(self.aborted)):
                    yield self._output([], {"type": "abort", "message": "out of blocks"})
                    return
                last = start + step >= len(TOKENS)
                yield self._output(TOKENS[start : start + step], {"type": "stop"} if last else None)
        finally:
            del self.running[rid]

    def _output(self, token_ids: list[int], reason: dict[str, str] | None) -> Any:
        meta = {
            "finish_reason": reason,
            "output_token_logprobs": [(-0.5, token_id, None) for token_id in token_ids],
            "output_top_logprobs": [[(-0.1, 1, None)] for _ in token_ids],
        }
        return {"output_ids": token_ids, "meta_info": meta}


SCRIPTED = {"vllm": ScriptedVllm, "sglang": ScriptedSglang}
CLASSES = {"vllm": VllmBackend, "sglang": SglangBackend}


def build_engine(name: Any, plugins: Any = (), **arguments: Any) -> GenerationEngine:
    return GenerationEngine(
        ModelLoadConfig(TINY_MODEL, backend=name, engine_args=arguments), plugins
    )


def start(
    monkeypatch: pytest.MonkeyPatch, name: str, arguments: Any = None, **script: Any
) -> tuple[GenerationEngine, Any]:
    """Return an engine around a scripted one, and that one."""
    scripted = SCRIPTED[name](**script)

    def load(backend: Any) -> None:
        scripted.loads += 1
        scripted.install(backend)

    monkeypatch.setattr(CLASSES[name], "load", load)
    return build_engine(name, **(arguments or {})), scripted
