"""What `frontend_cost` claims, and of which answers."""

from __future__ import annotations

import msgspec
import pytest

from benchmarks.frontend_claims import RULES, Case, Costs, check_claims
from benchmarks.systems import BACKEDGE, BACKEDGE_SGLANG, RUST, SGLANG, SYSTEMS, VLLM


def held(ours: str, peer: str, frontend_us: float, **changes: object) -> list[bool]:
    """Return which claims hold if the peer takes 100 us in both processes, and our worker 30."""
    case = msgspec.structs.replace(Case(ours, "content", stream=True, tokens=600), **changes)
    costs = {
        case: Costs(frontend_us, 30.0),
        msgspec.structs.replace(case, system=peer): Costs(100.0, 100.0),
    }
    return [claim.held for claim in check_claims(costs)]


@pytest.mark.parametrize(
    ("ours", "peer", "limit_us", "changes"),
    [
        (BACKEDGE, VLLM, 20.0, {}),
        (BACKEDGE_SGLANG, SGLANG, 20.0, {}),
        (BACKEDGE_SGLANG, SGLANG, 100.0, {"stream": False}),
        (BACKEDGE_SGLANG, SGLANG, 100.0, {"kind": "tools"}),
        (BACKEDGE, RUST, 40.0, {"kind": "reasoning"}),
        (BACKEDGE, RUST, 100.0, {"tokens": 100}),
        (BACKEDGE, RUST, 160.0, {"tokens": 20}),
    ],
)
def test_a_frontend_takes_at_most_its_part(
    ours: str, peer: str, limit_us: float, changes: dict[str, object]
) -> None:
    assert all(held(ours, peer, limit_us, **changes))
    assert not all(held(ours, peer, limit_us + 1, **changes))


def test_answers_that_no_rule_speaks_of_are_not_claimed() -> None:
    assert not held(BACKEDGE, VLLM, 1.0, stream=False)
    assert not held(BACKEDGE, RUST, 1.0, tokens=30)
    assert not held(VLLM, RUST, 1.0)


def test_the_rules_compare_systems_that_there_are() -> None:
    assert {name for rule in RULES for name in (rule.ours, rule.peer)} <= SYSTEMS.keys()
