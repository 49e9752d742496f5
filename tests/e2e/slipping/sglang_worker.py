"""Dynamo's SGLang worker; the first attempt at a call is a script with a slip.

It needs `--enable-custom-logit-processor`.
"""

from __future__ import annotations

import functools
from typing import Any

import torch
from backedge.worker import sglang as worker
from sglang.srt.entrypoints.engine import Engine
from sglang.srt.sampling.custom_logit_processor import CustomLogitProcessor
from typing_extensions import override

from .scripts import find_script


class Slipping(CustomLogitProcessor):
    """SGLang's own form of a logits processor."""

    @override
    def __call__(
        self, logits: torch.Tensor, custom_param_list: list[dict[str, Any]] | None = None
    ) -> torch.Tensor:
        for row, parameters in zip(logits, custom_param_list or (), strict=True):
            script, written = parameters["script"], len(parameters["__req__"].output_ids)
            row[:] = float("-inf")
            row[script[min(written, len(script) - 1)]] = 0
        return logits


def main() -> None:
    """Run the worker with the flags of dynamo.sglang."""
    generate = Engine.async_generate

    @functools.wraps(generate)
    async def slip(engine: Engine, *arguments: Any, **fields: Any) -> Any:
        sampling = fields["sampling_params"]
        script = find_script(sampling.get("sampling_seed"))
        if script is not None and not sampling.get("structural_tag"):
            fields["sampling_params"] = {**sampling, "custom_params": {"script": script}}
            fields["custom_logit_processor"] = Slipping.to_str()
        return await generate(engine, *arguments, **fields)

    Engine.async_generate = slip
    worker.main()


if __name__ == "__main__":
    # The engine's processes import the class from a module of this name.
    from tests.e2e.slipping import sglang_worker

    sglang_worker.main()
