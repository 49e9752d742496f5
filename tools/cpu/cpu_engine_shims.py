"""Lets a CPU build of vLLM run with packages that are only published for CUDA.

Copied into the virtual environment by `tools/setup`; never part of the package.
torchvision's wheels are CUDA builds: on CPU torch their import fails because
two operators have no schema. Declaring the schemas suffices; the operators are never called.

vLLM's engine waits for work in a loop around sched_yield. If there are fewer cores than processes,
that starves the others while the engine works: Linux 6.18 charges a yield to the whole scheduling
group, and a frontend was seen waiting for 3 of 3 seconds. A sleep of 0 s really yields.
"""

import importlib.abc
import importlib.machinery
import os
import sys
import time
from collections.abc import Sequence
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
            import torch

            library = torch.library.Library("torchvision", "FRAGMENT")
            for schema in SCHEMAS:
                library.define(schema)
            libraries.append(library)
        return None


sys.meta_path.insert(0, TorchvisionFinder())
os.sched_yield = lambda: time.sleep(0)
