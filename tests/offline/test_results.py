"""A result shows its first choice, and a failed one shows nothing."""

from backedge.offline.results import GeneratedChoice, GenerationResult, RowError


def choice(index: int, text: str) -> GeneratedChoice:
    return GeneratedChoice(
        index=index,
        text=text,
        raw_text=f"{text}<end>",
        token_ids=[index, 7],
        finish_reason="stop",
        stop_reason="end",
    )


def test_the_first_of_several_choices() -> None:
    found = GenerationResult(
        id="a", index=0, backend="hf", choices=[choice(0, "one"), choice(1, "two")]
    )
    assert (found.text, found.raw_text, found.token_ids) == ("one", "one<end>", [0, 7])
    assert (found.finish_reason, found.stop_reason) == ("stop", "end")
    assert (found.logprobs, found.message, found.completion_tokens) == (None, None, 4)


def test_a_row_that_failed() -> None:
    found = GenerationResult(id="a", index=0, backend="hf", error=RowError("request", "no"))
    assert (found.text, found.raw_text, found.token_ids) == ("", "", [])
    assert (found.finish_reason, found.stop_reason) == ("error", None)
    assert (found.logprobs, found.message, found.completion_tokens) == (None, None, 0)
