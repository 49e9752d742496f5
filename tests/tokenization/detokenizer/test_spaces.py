"""spaces_between_special_tokens."""

import pytest
from backedge.tokenization.detokenizer import Detokenizer, DetokenizerOptions
from backedge.tokenization.detokenizer.base import SpaceRemover, remove_spaces

ADDED = {1: "<a>", 2: "<b>"}
ALONE = DetokenizerOptions(skip_special_tokens=False, spaces_between_special_tokens=False)


class Spaced(Detokenizer):
    """Puts a space before each token."""

    def feed(self, token_id):
        return " " + ADDED.get(token_id, str(token_id))


@pytest.mark.parametrize(
    ("token_ids", "text"),
    [
        ([1, 2], " <a><b>"),
        ([1, 2, 1, 5], " <a><b><a> 5"),
        ([5, 1, 6, 2], " 5 <a> 6 <b>"),
        ([], ""),
    ],
)
def test_the_space_between_two_added_tokens_goes(token_ids, text):
    assert remove_spaces(Spaced(), ALONE, ADDED).feed_all(token_ids) == text
    assert "".join(map(SpaceRemover(Spaced(), ADDED).feed, token_ids)) == text


@pytest.mark.parametrize(
    ("options", "added"),
    [
        (DetokenizerOptions(), ADDED),
        (DetokenizerOptions(skip_special_tokens=False), ADDED),
        (DetokenizerOptions(spaces_between_special_tokens=False), ADDED),
        (ALONE, {}),
    ],
)
def test_nothing_is_wrapped_where_there_is_nothing_to_remove(options, added):
    inner = Spaced()
    assert remove_spaces(inner, options, added) is inner
