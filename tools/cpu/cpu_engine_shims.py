"""Lets a CPU build of vLLM run with packages that are only published for CUDA.

Copied into the virtual environment by `tools/setup`; never part of the package.
torchvision's wheels are CUDA builds: beside a CPU build of torch, their library does not load, and
their import fails because two operators have no schema. Declaring these suffices; the operators are
never called. Beside torch's CUDA build the library loads and declares them itself.

vLLM's CPU build needs libnuma, which set-up puts beside this module where the machine has none.

vLLM's engine waits for work in a loop around sched_yield. If there are fewer cores than processes,
that starves the others while the engine works: Linux 6.18 charges a yield to the whole scheduling
group, and a frontend was seen waiting for 3 of 3 seconds. A sleep of 0 s really yields.
"""

import contextlib
import ctypes
import importlib.abc
import importlib.machinery
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

SCHEMAS = (
    "nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    "qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
)
libraries: list[object] = []  # a torch.library.Library forgets its operators when collected


class FirstImports(importlib.abc.MetaPathFinder):
    """Prepares modules just before their first import.

    A finder, so that a Python process that never imports one does not pay for it.
    """

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Prepare the module once; always let the other finders find it."""
        if (prepare := PREPARE.pop(fullname, None)) is not None:
            prepare(path)
        return None


def load_libnuma(_path: Sequence[str] | None) -> None:
    """Load the library that vLLM's build needs and few machines have, if it is beside a module."""
    for folder in sys.path:
        library = Path(folder, "libnuma.so.1")
        if library.is_file():
            ctypes.CDLL(str(library), ctypes.RTLD_GLOBAL)


def declare_missing(path: Sequence[str] | None) -> None:
    """Declare torchvision's operators unless its library does. path: where modules are."""
    import torch

    found = importlib.machinery.PathFinder.find_spec("torchvision", path)
    for folder in (found and found.submodule_search_locations) or ():
        for library in Path(folder).glob("_C*.so"):
            with contextlib.suppress(OSError):  # it lacks the libraries of CUDA
                torch.ops.load_library(library)
    if not hasattr(torch.ops.torchvision, "nms"):
        declared = torch.library.Library("torchvision", "FRAGMENT")
        for schema in SCHEMAS:
            declared.define(schema)
        libraries.append(declared)


PREPARE = {"torchvision": declare_missing, "vllm": load_libnuma}
sys.meta_path.insert(0, FirstImports())
os.sched_yield = lambda: time.sleep(0)
