"""The claims of `frontend_cost`, and the systems that they compare."""

from __future__ import annotations

import pytest

from benchmarks.frontend_cost import Case, Row, Sample, check_claims
from benchmarks.systems import BACKEDGE, BACKEDGE_SGLANG, RUST, SGLANG, SGLANG_EACH, VLLM


def row(
    system: str, frontend_us: float, worker_us: float, kind: str = "content", *, stream: bool = True
) -> Row:
    sample = Sample(frontend_us, 1.0, frontend_us, worker_us, 0.0, 100.0)
    return Row(Case(system, kind, stream), sample, frontend_us, frontend_us, 1)


def held(*rows: Row) -> list[bool]:
    return [claim.held for claim in check_claims(list(rows))]


@pytest.mark.parametrize(
    ("ours", "peer"), [(BACKEDGE, VLLM), (BACKEDGE_SGLANG, SGLANG), (BACKEDGE_SGLANG, SGLANG_EACH)]
)
def test_content_in_a_stream_costs_a_fifth_of_the_engines_own_processor(
    ours: str, peer: str
) -> None:
    plain = RUST if ours == BACKEDGE else peer
    others = () if plain == peer else (row(plain, 30.0, 60.0),)
    assert held(row(ours, 20.0, 30.0), row(peer, 100.0, 60.0), *others) == [True, True]
    assert held(row(ours, 21.0, 70.0), row(peer, 100.0, 60.0), *others) == [False, False]


@pytest.mark.parametrize(("ours", "peer"), [(BACKEDGE, RUST), (BACKEDGE_SGLANG, SGLANG)])
@pytest.mark.parametrize(
    ("kind", "stream"), [("content", False), ("reasoning", True), ("tools", True)]
)
def test_everything_else_costs_less(ours: str, peer: str, kind: str, stream: bool) -> None:
    below = held(
        row(ours, 20.0, 30.0, kind, stream=stream), row(peer, 20.5, 60.0, kind, stream=stream)
    )
    above = held(
        row(ours, 20.0, 70.0, kind, stream=stream), row(peer, 19.5, 60.0, kind, stream=stream)
    )
    assert (below, above) == ([True, True], [False, False])


def test_without_a_peer_there_is_nothing_to_claim() -> None:
    assert not held(row(BACKEDGE, 20.0, 30.0), row(SGLANG, 100.0, 60.0))
    assert not held(row(SGLANG, 100.0, 60.0), row(RUST, 30.0, 60.0))
