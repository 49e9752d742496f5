"""For SGLang's `--enable-custom-logit-processor`: a request's `custom_params` are its script."""

from __future__ import annotations

from typing import Any

import torch
from sglang.srt.sampling.custom_logit_processor import CustomLogitProcessor
from typing_extensions import override


class Scripted(CustomLogitProcessor):
    """The parameters of a request.

    script: the ids of all tokens that the model writes; [] for what it likes.
    interval: tokens in a delta.
    """

    @override
    def __call__(
        self, logits: torch.Tensor, custom_param_list: list[dict[str, Any]] | None = None
    ) -> torch.Tensor:
        for row, parameters in zip(logits, custom_param_list or (), strict=True):
            # SGLang's API has no field for it.
            parameters["__req__"].sampling_params.stream_interval = parameters["interval"]
            if script := parameters["script"]:
                # The request's own tokens lag: SGLang samples a step before it has read the last.
                written = parameters["written"] = parameters.get("written", -1) + 1
                row.fill_(float("-inf"))
                row[script[min(written, len(script) - 1)]] = 0
        return logits
