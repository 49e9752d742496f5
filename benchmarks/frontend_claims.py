"""What `frontend_cost` claims: our cost as a part of a peer's, for which answers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Literal

import msgspec

from .systems import (
    BACKEDGE,
    BACKEDGE_HF,
    BACKEDGE_LOWEST,
    BACKEDGE_SGLANG,
    RUST,
    RUST_BACKEDGE,
    SGLANG,
    SGLANG_EACH,
    VLLM,
)

# From this many tokens on, an answer is long: what a request costs hardly shows.
LONG = 600
# Up to this many it is short: the request is most of the cost.
SHORT = 20
ANY = 1 << 62


class Case(msgspec.Struct, frozen=True):
    """One row's name. tokens: of an answer; 0 for transcripts as they are, which are long."""

    system: str
    kind: str
    stream: bool
    tokens: int

    def __str__(self) -> str:
        return f"{self.system}, {self.kind}, stream {str(self.stream).lower()}, {self.tokens}"


class Costs(msgspec.Struct, frozen=True):
    """CPU microseconds per token in both processes."""

    frontend_us: float
    worker_us: float


class Rule(msgspec.Struct, frozen=True, kw_only=True):
    """`ours` costs at most `part` of what `peer` does.

    side: where. content: whether it speaks of content in a stream; None for all answers.
    tokens: the shortest and the longest answer it speaks of.
    """

    ours: str
    peer: str
    part: float
    side: Literal["frontend", "worker"] = "frontend"
    content: bool | None = None
    tokens: tuple[int, int] = (LONG, ANY)

    def speaks_of(self, case: Case) -> bool:
        """Whether it says something about this case."""
        streamed_content = case.stream and case.kind == "content"
        return (
            case.system == self.ours
            and self.content in (None, streamed_content)
            and self.tokens[0] <= (case.tokens or LONG) <= self.tokens[1]
        )


RULES = (
    # Before a worker that gives it the text, Dynamo's Rust frontend has less to do.
    Rule(ours=RUST_BACKEDGE, peer=RUST, part=0.4, content=True),
    Rule(ours=BACKEDGE, peer=VLLM, part=0.2, content=True),
    Rule(ours=BACKEDGE, peer=RUST, part=0.4),
    Rule(ours=BACKEDGE, peer=RUST, part=1.0, tokens=(50, LONG - 1)),
    Rule(ours=BACKEDGE_HF, peer=RUST, part=1.3, tokens=(1, SHORT)),
    Rule(ours=BACKEDGE, peer=RUST, part=1.6, tokens=(1, SHORT)),
    Rule(ours=BACKEDGE_SGLANG, peer=RUST, part=1.6, tokens=(1, SHORT)),
    *(
        rule
        for peer in (SGLANG_EACH, SGLANG)
        for rule in (
            Rule(ours=BACKEDGE_SGLANG, peer=peer, part=0.2, content=True),
            Rule(ours=BACKEDGE_SGLANG, peer=peer, part=1.0, content=False),
            Rule(ours=BACKEDGE_SGLANG, peer=peer, part=1.0, side="worker"),
        )
    ),
    Rule(ours=BACKEDGE, peer=RUST, part=0.3, side="worker"),
    Rule(ours=BACKEDGE_LOWEST, peer=RUST, part=0.5, side="worker"),
)


class Claim(msgspec.Struct):
    """The claim that `ours_us` is at most `limit_us`.

    limit_us: a peer's figure in the same run, or a part of it.
    """

    text: str
    ours_us: float
    limit_us: float

    @property
    def held(self) -> bool:
        """Whether the claim held in this run."""
        return self.ours_us <= self.limit_us

    @property
    def verdict(self) -> str:
        """The claim and whether it held, in one line."""
        held = "held" if self.held else "NOT held"
        return f"claim: {self.text}: {held} ({self.ours_us:.1f} us, {self.limit_us:.1f} us)"


def check_claims(costs: Mapping[Case, Costs]) -> Iterator[Claim]:
    """Yield the claims about the cases of one run whose peers were in it."""
    for rule in RULES:
        for case, ours in costs.items():
            peer = costs.get(msgspec.structs.replace(case, system=rule.peer))
            if peer is None or not rule.speaks_of(case):
                continue
            ours_us, peer_us = (getattr(of, f"{rule.side}_us") for of in (ours, peer))
            yield Claim(
                f"{rule.side}, {case}: at most {rule.part:g} of {rule.peer}",
                ours_us,
                rule.part * peer_us,
            )
