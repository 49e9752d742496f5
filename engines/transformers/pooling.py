"""Embeddings from a model's last layer, as the model's files for sentence-transformers describe."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from ...base.errors import SetupError
from ...base.json_types import JsonObject
from ...tokenization.model_files import ModelFolder

if TYPE_CHECKING:
    import torch

PREFIX = "pooling_mode_"
MODES = {"cls": "cls", "cls_token": "cls", "mean": "mean", "mean_tokens": "mean"}
MODES |= {"last": "last", "lasttoken": "last"}
GENERATES = ("ForCausalLM", "ForConditionalGeneration")


class Module(msgspec.Struct):
    """An entry of modules.json. type: a class of sentence-transformers, with its module."""

    type: str
    path: str = ""


class ModelConfig(msgspec.Struct):
    """The part of config.json that tells whether the model generates."""

    architectures: list[str] = []


class Pooling(msgspec.Struct, frozen=True):
    """How the states of an input's tokens become its embedding. mode: "cls", "mean" or "last"."""

    mode: str
    normalizes: bool

    def pool(self, states: torch.Tensor, mask: torch.Tensor) -> list[list[float]]:
        """Return the embeddings of inputs that are padded on the right.

        states: of shape (inputs, tokens, size). mask: of shape (inputs, tokens), 1 for no padding.
        """
        states, lengths = states.float(), mask.sum(1, keepdim=True)
        match self.mode:
            case "cls":
                found = states[:, 0]
            case "mean":
                found = (states * mask.unsqueeze(-1)).sum(1) / lengths
            case _:
                found = states.take_along_dim(lengths.unsqueeze(-1) - 1, 1).squeeze(1)
        if self.normalizes:
            found = found / found.norm(dim=-1, keepdim=True)
        vectors: list[list[float]] = found.tolist()
        return vectors


def read_pooling(folder: Path) -> Pooling:
    """Return a model's pooling; for one that generates, without such files, vLLM's.

    Raises `SetupError` for what is not supported, and for another model without these files.
    """
    files = ModelFolder(folder)
    if not (folder / "modules.json").is_file():
        architectures = files.read("config.json", ModelConfig).architectures
        if not any(name.endswith(GENERATES) for name in architectures):
            found = f"{folder} has no modules.json, which tells how to embed with its architecture"
            raise SetupError(f"{found}; use --backend vllm, or add that file.")
        return Pooling("last", normalizes=True)
    modules = files.read("modules.json", list[Module])
    kinds = [module.type.rpartition(".")[2] for module in modules]
    if kinds not in (["Transformer", "Pooling"], ["Transformer", "Pooling", "Normalize"]):
        shown = ", ".join(kinds) or "nothing"
        raise SetupError(
            f"{folder}/modules.json has {shown}; the back end 'hf' knows Transformer, Pooling and "
            "Normalize, in this order. Use --backend vllm."
        )
    return Pooling(_read_mode(files, modules[1].path), normalizes="Normalize" in kinds)


def _read_mode(files: ModelFolder, path: str) -> str:
    """Return the mode in the configuration of the module at `path`."""
    given = files.read(f"{path}/config.json", JsonObject)
    names = [
        name.removeprefix(PREFIX)
        for name, value in given.items()
        if name.startswith(PREFIX) and value is True
    ]
    if isinstance(named := given.get("pooling_mode"), str):
        names = [named]
    if len(names) != 1 or names[0] not in MODES:
        raise SetupError(
            f"{files.folder}/{path} pools by {', '.join(names) or 'nothing'}; the back end 'hf' "
            "knows cls, mean and last. Use --backend vllm."
        )
    return MODES[names[0]]
