"""The command, with SGLang's deterministic mode on a CPU, for batches with seeds.

SGLang has this mode for GPUs alone: it refuses torch's attention, and replaces torch's kernels by
Triton's. Both are taken out here, in each of its processes, which import this module again.
"""

from __future__ import annotations

from backedge.offline.command import command
from sglang.srt import batch_invariant_ops
from sglang.srt.server_args import add_deterministic_attention_backend_choices

batch_invariant_ops.enable_batch_invariant_mode = lambda: None
add_deterministic_attention_backend_choices(["torch_native"])

if __name__ == "__main__":
    command(prog_name="python -m backedge.offline")
