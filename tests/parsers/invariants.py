"""What holds for every answer, whatever the model wrote."""

from __future__ import annotations

from backedge.postprocess import ChoiceDelta

from tests.parsers.sample_model import SampleModel, cached_detokenizers


def check_deltas(model: SampleModel, index: int = 0) -> None:
    """Check the deltas of one choice of the last run."""
    deltas = [delta for chunk in model.chunks for delta in chunk if delta.index == index]
    assert [delta.delta.role for delta in deltas] == ["assistant"] + [None] * (len(deltas) - 1)
    assert [bool(delta.finish_reason) for delta in deltas] == [False] * (len(deltas) - 1) + [True]
    if model.params.stream:
        _check_kinds(deltas)
    _check_calls(deltas)


def _check_kinds(deltas: list[ChoiceDelta]) -> None:
    for delta in deltas:
        kinds = [delta.delta.reasoning_content, delta.delta.content, delta.delta.tool_calls]
        assert sum(kind is not None and kind != [] for kind in kinds) <= 1, (
            f"two kinds of text: {delta}"
        )
        assert "" not in kinds[:2], f"empty text: {delta}"


def _check_calls(deltas: list[ChoiceDelta]) -> None:
    ids: list[str] = []
    for delta in deltas:
        for call in delta.delta.tool_calls:
            if call.id is not None:
                assert call.index == len(ids), "calls are numbered in their order"
                assert call.type == "function"
                assert call.function.name
                ids.append(call.id)
            else:
                assert call.index == len(ids) - 1, "arguments belong to the last call"
                assert call.function.name is None
                assert call.function.arguments, "an empty delta"
    assert len(set(ids)) == len(ids), "ids repeat"
    if ids:
        last: str | None = None
        for delta in deltas:
            content = delta.delta.content
            assert not content or content.strip() or last, "white space after a call is no content"
            last = content or (None if delta.delta.tool_calls else last)


def check_tokens(model: SampleModel, whole: ChoiceDelta, fed: list[int]) -> None:
    """Check that token ids and logprobs are complete, up to the finish, and in order."""
    used = fed[: model.post.usage.completion_tokens]
    assert whole.token_ids == used
    assert whole.logprobs is not None
    token_bytes = cached_detokenizers(model.tokenizer).token_bytes
    assert [bytes(entry.bytes or ()) for entry in whole.logprobs] == [
        token_bytes(token_id) for token_id in used
    ]
    assert [entry.logprob for entry in whole.logprobs] == [
        -float(number) for number in range(len(used))
    ]
