"""Generate the answers to a file of conversations.

python -m backedge.offline --model M --backend vllm --input in.jsonl --output out.jsonl
"""

from __future__ import annotations

from .command import command

if __name__ == "__main__":
    command(prog_name="python -m backedge.offline")
