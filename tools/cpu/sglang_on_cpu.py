"""A plugin of SGLang that lets a CPU have its deterministic mode, and so the seeds of requests.

Copied into the virtual environment by `tools/setup`; never part of the package.
SGLang has the mode for a GPU's attention, whose kernels do not depend on the batch. What draws a
token with a seed is plain torch. A CPU keeps its kernels, as it does with vLLM: that their sums
depend on the batch has not changed a token of the example model.
"""

from sglang.srt.plugins.hook_registry import HookRegistry, HookType
from sglang.srt.server_args import add_deterministic_attention_backend_choices


def register() -> None:
    """Register the CPU's attention, and leave its kernels as they are."""
    add_deterministic_attention_backend_choices(["torch_native"])
    HookRegistry.register(
        "sglang.srt.model_executor.model_runner.ModelRunner.maybe_enable_batch_invariant_mode",
        lambda _runner: None,
        HookType.REPLACE,
    )
