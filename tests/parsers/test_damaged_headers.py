"""A damaged header of a format with channels loses no word of the text that follows it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import pytest
from backedge.parsers.events import Reasoning
from backedge.parsers.formats.catalog import FORMATS

from tests.parsers.event_outcome import join_outcome
from tests.parsers.families import FAMILIES
from tests.parsers.families.family import Invocation, function
from tests.parsers.generated import (
    Answer,
    Token,
    by_character,
    feed,
    together,
    tokenize,
)

CHANNELS = [format_.name for format_ in FORMATS if format_.has_channels]
WORD = re.compile(r"q\d+q")
# Thoughts, answers and calls. A message begins and ends with another word than those that count:
# one in front of a header's own marker, where damage may move it, is a name in the header.
MESSAGES: tuple[tuple[str, str, tuple[Invocation, ...]], ...] = (
    ("So, q0q.", "Well, q1q.", ()),
    ("<b>So q0q</b> {q1q: 1 < 2}.", "to=q2q {or q3q}.", ()),
    ("So.", "\nWell, q0q.", (("write", {"path": "a q1q", "text": "{q2q"}),)),
)
WRITE = function("write", path="string", text="string")
WRITE["function"]["parameters"]["required"] = ["path", "text"]


def answer(name: str, number: int, *, by_id: bool) -> Answer:
    """Return the answer with these messages, whose markers are tokens, or text."""
    thought, content, calls = MESSAGES[number]
    family = FAMILIES[name]
    assert family.write is not None
    ids = family.ids if by_id else {}
    tokens = tokenize(family.write_thought(thought) + family.write(content, calls), ids, {})
    return Answer(name, thought, content, calls, tuple(tokens), (WRITE,), tuple(ids.items()))


def damage(tokens: Sequence[Token]) -> Iterator[list[Token]]:
    """Yield the tokens with each of them left out, doubled, cut, and swapped with the next."""
    for at, (text, token_id) in enumerate(tokens):
        before, after = tokens[:at], tokens[at + 1 :]
        yield [*before, *after]
        yield [*before, (text, token_id), (text, token_id), *after]
        yield [*before, *after[:1], (text, token_id), *after[1:]]
        if not token_id and len(text) > 1 and not WORD.fullmatch(text):
            yield [*before, (text[: len(text) // 2], 0), *after]


@pytest.mark.parametrize("damaged", ["tokens", "text", "characters"])
@pytest.mark.parametrize("name", CHANNELS)
def test_every_word_after_a_damaged_header_is_shown(name: str, damaged: str) -> None:
    lost = {}
    for number in range(1 if damaged == "characters" else len(MESSAGES)):
        whole = answer(name, number, by_id=damaged == "tokens")
        tokens = by_character(whole.tokens) if damaged == "characters" else whole.tokens
        for changed in (tokens, *damage(tokens)):
            text = "".join(text for text, _ in changed)
            shown = "".join(getattr(event, "text", "") for event in feed(whole, changed))
            if words := [word for word in WORD.findall(text) if word not in shown]:
                lost[text] = words
    assert not lost


@pytest.mark.parametrize("name", CHANNELS)
def test_damage_is_read_the_same_at_any_cut(name: str) -> None:
    for by_id in (True, False):
        whole = answer(name, 0, by_id=by_id)
        for changed in damage(whole.tokens):
            events = feed(whole, changed)
            assert feed(whole, by_character(changed)) == events
            assert feed(whole, together(changed)) == events


MARKER, BRACE = "<|channel|>final<|message>", '{"path": "a"}'


@pytest.mark.parametrize("name", ["openai", "beam"])
@pytest.mark.parametrize(
    ("output", "reasoning", "content"),
    [
        ("<|channel|>analysis<|message>So.<|end|>", "<|message>So.", None),
        ("<|channel|>analysis<||message|>So.<|end|>", "<||message|>So.", None),
        ("<|channel|>final<|message|Yes<|return|>", None, "<|message|Yes"),
        # The marker is left of the header alone, so it is none of what the model says.
        (f"{MARKER}{BRACE}<|return|>", None, BRACE),
        ("<|channel|>analysisSo {it} is.<|end|>", "So {it} is.", None),
        ("<|channel|>fina<l|message|>Yes.<|return|>", None, "<l|message|>Yes."),
        ("<|channel|>final|message|>to=you<|return|>", None, "|message|>to=you"),
    ],
)
def test_text_after_a_damaged_marker_is_a_message_of_its_channel(
    name: str, output: str, reasoning: str | None, content: str | None
) -> None:
    whole = Answer(name, "", "", (), tuple(tokenize(output, {}, {})), (WRITE,), ())
    outcome = join_outcome(feed(whole, whole.tokens))
    assert (outcome.reasoning, outcome.content) == (reasoning, content)


def test_a_parameter_in_front_of_which_the_header_is_damaged_is_not_lost() -> None:
    whole = answer("beam", 2, by_id=False)
    text = "".join(text for text, _ in whole.tokens).replace("<|message|><rfl", "<|message|<>rfl")
    events = feed(whole, tokenize(text, {}, {}))
    assert any(isinstance(event, Reasoning) for event in events)
    assert 'name="path">\na q1q' in (join_outcome(events).content or "")
