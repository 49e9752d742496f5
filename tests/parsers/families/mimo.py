"""MiMo: Qwen 3 Coder's tags, without line breaks between them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from benchmarks.samples.sample import Call, Outcome
from tests.parsers.families import seed_oss
from tests.parsers.families.family import Case, Family, Invocation
from tests.parsers.families.qwen3 import read_text


def write(content: str, calls: Sequence[Invocation]) -> str:
    """Write as MiMo V2.6 does: nothing stands between the tags."""
    written = [
        f"<tool_call><function={name}>"
        + "".join(
            f"<parameter={key}>{read_text(value)}</parameter>" for key, value in arguments.items()
        )
        + "</function></tool_call>"
        for name, arguments in calls
    ]
    return content + "".join(written)


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
