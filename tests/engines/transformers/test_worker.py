"""The flags of the worker around transformers; tests/e2e/test_transformers_worker.py runs it."""

from __future__ import annotations

import pytest
from backedge.engines.transformers.worker import parse_arguments, show_logprobs
from backedge.offline.completion import TokenLogprobs
from backedge.postprocess.messages import EngineLogprob


def test_the_flags_name_model_and_endpoint() -> None:
    flags, config = parse_arguments(
        ["--model", "folder", "--num-blocks", "32", "--namespace", "other"]
    )
    assert (flags.num_blocks, config.model_name, config.namespace) == (32, "folder", "other")


@pytest.mark.parametrize("count", ["-1", "0", "1" * 30, "many"])
def test_a_count_that_is_none_is_refused(count: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parse_arguments(["--model", "folder", "--num-blocks", count])
    assert f"'{count}' is not a number of blocks from 1" in capsys.readouterr().err


def test_logprobs_are_in_dynamo_s_form() -> None:
    found = [TokenLogprobs([-0.5], [[EngineLogprob(7, 1, -0.5)]])]
    assert show_logprobs(found, 0) == {"log_probs": [-0.5]}
    assert show_logprobs(found, 1) == {
        "log_probs": [-0.5],
        "top_logprobs": [[{"rank": 1, "token_id": 7, "logprob": -0.5}]],
    }
