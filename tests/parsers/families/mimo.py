"""MiMo: Qwen 3 Coder's tags around values on their line, as Seed-OSS writes them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from benchmarks.samples.sample import Call, Outcome
from tests.parsers.families import seed_oss
from tests.parsers.families.family import Case, Family, Invocation


def write(content: str, calls: Sequence[Invocation]) -> str:
    """Write Seed-OSS's calls between MiMo's tokens."""
    return seed_oss.write(content, calls).replace("seed:tool_call", "tool_call")


FAMILY = Family(
    "mimo",
    write,
    markers=("<tool_call>", "</tool_call>"),
    cases=(
        Case("end marker of the call in a value",
             write("", [("write", {"text": "a </tool_call> b </function> c"})]),
             Outcome(calls=(Call("write", {"text": "a </tool_call> b </function> c"}),))),
        *(
            replace(case, output=case.output.replace("seed:", ""), vllm="")
            for case in seed_oss.FAMILY.cases
            if "seed:think" not in case.output and "seed:" not in str(case.expected)
        ),
    ),
)  # fmt: skip
