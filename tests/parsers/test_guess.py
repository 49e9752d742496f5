"""The beginning of a guess is that of its text, whatever is collected and taken back."""

from __future__ import annotations

from backedge.parsers.guess import MAX_BEGINNING, Guess
from hypothesis import given
from hypothesis import strategies as st

STEPS = (
    "add",
    "words",
    "call",
    "take back",
    "take and put back",
    "front",
    "shown",
    "show",
    "header",
)
texts = st.sampled_from(["", "a", " ", "word ", "x" * 700, "\n" * 600])


def do(guess: Guess, step: str, text: str) -> None:
    if step == "add":
        guess.add(text)
    elif step == "words":
        guess.add_words(text)
    elif step == "call":
        guess.begin_call(text)
    elif step in ("take back", "take and put back") and guess.call is not None:
        pieces = guess.take_back(guess.call)
        if step == "take and put back":
            guess.put_back(pieces)
        else:
            guess.end_call()
    elif step == "front":
        guess.drop_front(" ")
        guess.end_call()
    elif step == "shown":
        guess.end_words()
        guess.drop_shown()
    elif step == "show":
        guess.show()
    elif step == "header":
        guess.drop_header()


@given(st.lists(st.tuples(st.sampled_from(STEPS), texts), max_size=12), texts)
def test_the_beginning_is_that_of_the_text(steps: list[tuple[str, str]], more: str) -> None:
    guess = Guess("<call>", -1)
    for step, text in steps:
        do(guess, step, text)
        whole = guess.text + more
        found = guess.begin_with(more)
        assert whole.startswith(found)
        assert found == whole or len(found) >= MAX_BEGINNING
