"""Generate the answers to a file of conversations.

python -m backedge.offline --model M --backend vllm --input in.jsonl --output out.jsonl
"""

from __future__ import annotations

import sys

from .command import main

if __name__ == "__main__":
    sys.exit(main())
