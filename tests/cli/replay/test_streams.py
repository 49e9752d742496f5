"""Which recorded requests can be replayed."""

from __future__ import annotations

import msgspec
import pytest
from backedge.base.errors import SetupError
from backedge.cli.replay.streams import check_comparable

from tests.cli.replay.recordings import call


def test_a_request_without_tokens_is_refused() -> None:
    failed = msgspec.structs.replace(call(), chunks=[], outcome="failed", error="out of memory")
    with pytest.raises(SetupError, match="out of memory"):
        check_comparable(failed)
    check_comparable(call())
