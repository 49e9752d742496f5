"""Runs Dynamo's SGLang worker if SGLang does not load the plugin.

python -m backedge.worker.sglang ...    # with the flags of dynamo.sglang
"""

from __future__ import annotations

import runpy

from ..base.errors import exiting
from ..base.seams import check_dynamo_installed
from . import plugin


def main() -> None:
    """Run Dynamo's SGLang worker with our flags, regardless of SGLANG_PLUGINS."""
    plugin.register_sglang()
    with exiting():
        check_dynamo_installed()
    runpy.run_module("dynamo.sglang", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
