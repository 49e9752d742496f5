"""Replaces SGLang's kernels, whose published wheels need CUDA.

Copied into the virtual environment by `tools/setup`; never part of the package.
SGLang imports dozens of names from here but, for a full-precision model on the CPU, calls none of
them, so each name is a function that raises. The operators below are registered as fakes at import
time, so they must be declared. The one that it does call, for the seeds of requests, is here.
"""

import sys
from collections.abc import Callable
from typing import Any, NoReturn

import torch

OPERATORS = (
    "fused_sigmoid_mul_cpu",
    "fused_qk_gemma_rmsnorm_cpu",
    "fused_qk_gemma_rmsnorm_with_gate_cpu",
    "fused_qkvzba_split_reshape_cat_contiguous_cpu",
    "fused_gdn_gating_cpu",
)
library = torch.library.Library("sgl_kernel", "FRAGMENT")
for operator in OPERATORS:
    library.define(f"{operator}(Tensor x) -> Tensor")
LOW = 0xFFFF_FFFF  # the bits of a hash


def rotate(values: torch.Tensor, bits: int) -> torch.Tensor:
    """Rotate integers of 32 bits to the left."""
    return (values << bits | values >> (32 - bits)) & LOW


def murmur_hash32(
    seeds: torch.Tensor, positions: torch.Tensor, columns: torch.Tensor
) -> torch.Tensor:
    """Return MurmurHash3 (x86, 32 bits, of 16 bytes) of each row's seed and position, and a column.

    seeds, positions: integers of 64 and 32 bits, of shape (rows,). columns: of shape (columns,).
    Returns unsigned integers of shape (rows, columns), as SGLang's Triton kernel of the same name.
    """
    seeds, positions = seeds.to(torch.int64)[:, None], positions.to(torch.int64)[:, None]
    found = torch.zeros(len(seeds), len(columns), dtype=torch.int64)
    for block in (seeds, seeds >> 32, positions, columns.to(torch.int64)[None]):
        mixed = rotate((block & LOW) * 0xCC9E2D51 & LOW, 15) * 0x1B873593 & LOW
        found = rotate(found ^ mixed, 13) * 5 + 0xE6546B64 & LOW
    found = found ^ 16
    for bits, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35), (16, 1)):
        found = (found ^ found >> bits) * factor & LOW
    return found.to(torch.uint32)


library.define("murmur_hash32_cpu(Tensor seeds, Tensor positions, Tensor columns) -> Tensor")
library.impl("murmur_hash32_cpu", murmur_hash32, "CPU")

# `sgl_kernel.mamba` and similar names are imported as modules.
sys.modules["sgl_kernel.mamba"] = sys.modules[__name__]


def __getattr__(name: str) -> Callable[..., Any]:
    if name.startswith("__"):
        raise AttributeError(name)

    def kernel(*arguments: Any, **options: Any) -> NoReturn:
        raise NotImplementedError(f"sgl_kernel.{name} needs a GPU")

    return kernel
