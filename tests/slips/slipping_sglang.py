"""Dynamo's SGLang worker with a model that slips at first, and then writes what it meant.

At another attempt, which is held to a grammar, the model only prefers its script's tokens. It
needs `--enable-custom-logit-processor`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from backedge.worker import sglang as worker
from sglang.srt.entrypoints.engine import Engine
from sglang.srt.sampling.custom_logit_processor import CustomLogitProcessor
from typing_extensions import override

from tests.slips.scripts import PREFERRED, find_preferred, find_script


class Slipping(CustomLogitProcessor):
    """SGLang's own form of a logits processor."""

    @override
    def __call__(
        self, logits: torch.Tensor, custom_param_list: list[dict[str, Any]] | None = None
    ) -> torch.Tensor:
        for row, parameters in zip(logits, custom_param_list or (), strict=True):
            script, request = parameters["script"], parameters["__req__"]
            if parameters["slips"]:
                first = script["first"]
                row[:] = float("-inf")
                row[first[min(len(request.output_ids), len(first) - 1)]] = 0
            else:
                written = request.origin_input_ids, request.output_ids
                row[find_preferred(script, *written)] += PREFERRED
        return logits


def choose(sampling: dict[str, Any]) -> dict[str, Any] | None:
    """Return the script of a request, and whether it slips; None: it writes what it likes."""
    script = find_script(sampling.get("sampling_seed"))
    return script and {"script": script, "slips": not sampling.get("structural_tag")}


def serve(choose: Callable[[dict[str, Any]], dict[str, Any] | None]) -> None:
    """Run the worker with the flags of dynamo.sglang.

    choose: returns `Slipping`'s parameters for a request's sampling; None to leave it alone.
    """
    generate = Engine.async_generate

    @functools.wraps(generate)
    async def slip(engine: Engine, *arguments: Any, **fields: Any) -> Any:
        sampling = fields["sampling_params"]
        if (own := choose(sampling)) is not None:
            fields["sampling_params"] = {**sampling, "custom_params": own}
            fields["custom_logit_processor"] = Slipping.to_str()
        return await generate(engine, *arguments, **fields)

    Engine.async_generate = slip
    worker.main()


if __name__ == "__main__":
    # The engine's processes import the class from a module of this name.
    from tests.slips import slipping_sglang

    slipping_sglang.serve(slipping_sglang.choose)
