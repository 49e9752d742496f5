"""Dynamo's SGLang worker; the script's next token is the only one in each request.

It needs `--enable-custom-logit-processor`. Dynamo passes no processor of a request on, so the
engine gets it here.
"""

from __future__ import annotations

import functools
from typing import Any

import torch
from backedge.worker import sglang as worker
from sglang.srt.entrypoints.engine import Engine
from sglang.srt.sampling.custom_logit_processor import CustomLogitProcessor
from typing_extensions import override

from .script import next_token


class Scripted(CustomLogitProcessor):
    """SGLang's own form of a logits processor."""

    @override
    def __call__(
        self, logits: torch.Tensor, custom_param_list: list[dict[str, Any]] | None = None
    ) -> torch.Tensor:
        masked = torch.full_like(logits, float("-inf"))
        for row, parameters in zip(masked, custom_param_list or (), strict=True):
            request = parameters["__req__"]
            row[next_token(list(request.origin_input_ids), list(request.output_ids))] = 0
        return masked


def main() -> None:
    """Run the worker with the flags of dynamo.sglang."""
    generate = Engine.async_generate

    @functools.wraps(generate)
    async def follow_script(engine: Engine, *arguments: Any, **fields: Any) -> Any:
        fields["sampling_params"] = {**fields["sampling_params"], "custom_params": {}}
        processor = Scripted.to_str()
        return await generate(engine, *arguments, custom_logit_processor=processor, **fields)

    Engine.async_generate = follow_script
    worker.main()


if __name__ == "__main__":
    # The engine's processes import the class from a module of this name.
    from tests.clients.scripted import sglang_worker

    sglang_worker.main()
