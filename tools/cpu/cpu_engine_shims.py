"""Lets a CPU build of vLLM run with packages that are only published for CUDA.

Copied into the virtual environment by `tools/setup`; never part of the package.
torchvision's wheels are CUDA builds: beside a CPU build of torch, their library does not load, and
their import fails because two operators have no schema. Declaring these suffices; the operators are
never called. Beside torch's CUDA build the library loads and declares them itself.

vLLM's engine waits for work in a loop around sched_yield. If there are fewer cores than processes,
that starves the others while the engine works: Linux 6.18 charges a yield to the whole scheduling
group, and a frontend was seen waiting for 3 of 3 seconds. A sleep of 0 s really yields.
"""

import contextlib
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


class TorchvisionFinder(importlib.abc.MetaPathFinder):
    """Declares the operators just before the first import of torchvision.

    A finder, so that a Python process that never imports torchvision does not
    pay for the import of torch.
    """

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Declare the operators; always let the other finders find the module."""
        if fullname == "torchvision":
            sys.meta_path.remove(self)
            declare_missing(path)
        return None


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


sys.meta_path.insert(0, TorchvisionFinder())
os.sched_yield = lambda: time.sleep(0)
