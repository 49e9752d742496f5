"""Our parsers in the engines' own servers, beside `test_servers`: other calls, and drafts."""

from __future__ import annotations

from pathlib import Path

import pytest
from backedge.base.server_names import PREFIX

from tests.e2e.peer_servers import DRAFTING, WAYS, find_wrong, start_server
from tools.stack import Stack, metric

REASONING = ("--reasoning-parser", f"{PREFIX}qwen3")
DRAFTED = "vllm:spec_decode_num_accepted_tokens_total"
# What the server decides itself, as in `test_servers`.
DECIDED = {
    "vllm": (),
    "sglang": (
        "text after a result of a call with the arguments '', qwen3_coder",
        "reasoning and a call, none, qwen3_coder",
    ),
    DRAFTING: ("named_choice", "stop_in_reasoning"),
}


@pytest.mark.parametrize(
    ("server", "parser"),
    [("vllm", "qwen3_coder"), ("sglang", "qwen3_coder"), (DRAFTING, "hermes")],
)
def test_only_what_the_server_decides_differs(server: str, parser: str, tmp_path: Path) -> None:
    with Stack(tmp_path) as stack:
        process = start_server(stack, server, "--tool-call-parser", PREFIX + parser, *REASONING)
        wrong = find_wrong(process.url, server, parser)
        accepted = metric(process.url, DRAFTED) if server == DRAFTING else 0
        process.kill()
    assert wrong == {(name, way) for name in DECIDED[server] for way in WAYS}
    assert (accepted > 0) is (server == DRAFTING)
