"""Seed-OSS: the calls of Qwen 3 Coder between its own tokens."""

from ..format import Spelling, State
from .fragments import think, variant
from .qwen3 import QWEN3_CODER

SEED_OSS = variant(
    QWEN3_CODER,
    "seed_oss",
    markers={"tool_call>": "seed:tool_call>"},
    strip="",  # its template writes values on the line of their markers
    states=think("<seed:think>", "</seed:think>", extra_end=True),
    source="ByteDance-Seed/Seed-OSS-36B-Instruct chat template; vllm 0.31 parser/seed_oss.py",
    spelling=Spelling(
        "<seed:tool_call>\n<function={name}>\n{arguments}</function>\n</seed:tool_call>",
        between="\n",
        parameters={State.VALUE: "<parameter={key}>{value}</parameter>\n"},
    ),
)
