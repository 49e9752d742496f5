"""A guess collects its words together with what stands between them."""

from __future__ import annotations

from backedge.parsers.guess import Guess


def test_words_include_what_stands_between_them() -> None:
    guess = Guess("<calls>", -1)
    guess.pieces.append("\n")
    guess.add_words("a")
    guess.pieces.append(", ")
    guess.add_words("b")
    guess.pieces.append("]")
    assert (guess.words, guess.text) == ("a, b", "<calls>\na, b]")
    assert "".join(guess.pieces[: guess.words_end]) == "\na, b"


def test_a_header_is_for_no_client() -> None:
    guess = Guess("<message>", -1)
    guess.call = 0
    guess.pieces += ["to=f", "<|"]
    guess.drop_header()
    assert not guess.text
    assert guess.__dict__["call"] is None
