"""Replaces SGLang's kernels, whose published wheels need CUDA.

Copied into the virtual environment by `tools/setup`; never part of the package.
SGLang imports dozens of names from here but, for a full-precision model on the CPU, calls none of
them, so each name is a function that raises. The operators below are registered as fakes at import
time, so they must be declared.
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

# `sgl_kernel.mamba` and similar names are imported as modules.
sys.modules["sgl_kernel.mamba"] = sys.modules[__name__]


def __getattr__(name: str) -> Callable[..., Any]:
    if name.startswith("__"):
        raise AttributeError(name)

    def kernel(*arguments: Any, **options: Any) -> NoReturn:
        raise NotImplementedError(f"sgl_kernel.{name} needs a GPU")

    return kernel
