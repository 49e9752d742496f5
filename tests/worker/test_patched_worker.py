"""What Dynamo's patched workers share: flags that make no sense together."""

from __future__ import annotations

from typing import Any

import pytest
from backedge.base.errors import SetupError
from backedge.tokenization.tokenizer_selection import TokenizerSelection

from tests.worker.test_engine_worker import ScriptedWorker


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({}, "no tokens to post-process"),
        (
            {"post_processing": False, "tokenizer": TokenizerSelection("sglang")},
            "--tokenizer-backend sglang",
        ),
    ],
)
def test_a_worker_of_text_is_refused_by_its_flag(settings: dict[str, Any], reason: str) -> None:
    worker = ScriptedWorker(**settings)
    worker.text_flag = "--use-its-tokenizer"
    with pytest.raises(SetupError, match=reason) as refused:
        worker.check_text_flag()
    assert "--use-its-tokenizer" in str(refused.value)
