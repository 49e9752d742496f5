"""Runs Dynamo's TensorRT-LLM worker if torch does not load the plugin.

python -m backedge.worker.trtllm ...    # with the flags of dynamo.trtllm
"""

from __future__ import annotations

import runpy

from ..base.errors import exiting
from ..base.seams import check_dynamo_installed
from . import plugin


def main() -> None:
    """Run Dynamo's TensorRT-LLM worker with our flags, whatever torch loads."""
    plugin.install_hook(plugin.LLM_WORKER, plugin.patch_trtllm)
    with exiting():
        check_dynamo_installed()
    runpy.run_module("dynamo.trtllm", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
