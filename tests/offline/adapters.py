"""Adapters of random weights for the example model, in the form of peft."""

from __future__ import annotations

import json
from pathlib import Path

import torch
from safetensors.torch import save_file

from tests.support import TINY_MODEL

# Modules of each layer, with the sizes of their input and output.
SIZES = {"q_proj": (128, 128), "v_proj": (128, 64)}
LAYERS = 3


def make_adapter(folder: Path, seed: int, rank: int = 8) -> Path:
    folder.mkdir(parents=True)
    config = {
        "peft_type": "LORA",
        "task_type": "CAUSAL_LM",
        "base_model_name_or_path": str(TINY_MODEL),
        "r": rank,
        "lora_alpha": 2 * rank,
        "target_modules": [*SIZES],
    }
    (folder / "adapter_config.json").write_text(json.dumps(config))
    torch.manual_seed(seed)
    weights = {
        f"base_model.model.model.layers.{layer}.self_attn.{name}.lora_{part}.weight": torch.randn(
            *shape
        )
        * 0.1
        for layer in range(LAYERS)
        for name, (given, made) in SIZES.items()
        for part, shape in {"A": (rank, given), "B": (made, rank)}.items()
    }
    save_file(weights, folder / "adapter_model.safetensors")
    return folder
