"""The assertions of the kit, and the instance that it checks."""

import pytest
from backedge.testing.tokenizer_kit.check import (
    Check,
    TokenizerUnderTest,
    common_prefix_length,
    has_own_attribute,
    require,
    require_equal,
    wrap_checked,
)
from backedge.tokenization.errors import ContractError
from hypothesis import given
from hypothesis import strategies as st

from examples.my_tokenizer import MyTokenizer
from tests.tokenization.examples import MinimalTokenizer


@given(one=st.text(alphabet="ab"), other=st.text(alphabet="ab"))
def test_the_common_prefix_is_the_longest_one(one, other):
    length = common_prefix_length(one, other)
    assert one[:length] == other[:length]
    assert (
        one[: length + 1] != other[: length + 1]
        or one == other
        or length == min(len(one), len(other))
    )


def test_a_requirement_that_is_not_met_is_an_error():
    require(True, "unused")
    with pytest.raises(ContractError, match="it is wrong"):
        require(False, "it is wrong")


@pytest.mark.parametrize(
    ("found", "expected", "message"),
    [
        ([1], [2], r"ids: [1] instead of [2]"),
        ("ab", "", "ids: 'ab' instead of ''"),
        (
            "x" * 100 + "a",
            "x" * 100 + "b",
            f"ids: '{'x' * 15}a' instead of '{'x' * 15}b' (from 85 on; 101 long, not 101)",
        ),
    ],
)
def test_a_difference_is_shown_where_it_begins(found, expected, message):
    require_equal(found, found, "ids")
    with pytest.raises(ContractError) as caught:
        require_equal(found, expected, "ids")
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("tokenizer", "name", "own"),
    [
        (MyTokenizer("model"), "__repr__", True),
        (MinimalTokenizer(), "__repr__", False),
        (MyTokenizer("model"), "apply_chat_template", True),
        (MinimalTokenizer(), "apply_chat_template", False),
        (MinimalTokenizer(), "__call__", False),
    ],
)
def test_an_attribute_of_every_object_is_no_feature(tokenizer, name, own):
    assert has_own_attribute(tokenizer, name) is own


def test_an_instance_is_kept_until_it_is_discarded():
    target = TokenizerUnderTest(MinimalTokenizer)
    first = target.instance
    assert target.instance is first
    assert target.tokenizer.unwrap() is first
    target.discard()
    assert target.instance is not first


def test_results_are_checked_under_the_name_of_the_class():
    assert wrap_checked(MinimalTokenizer()).encode("a") == [97]
    with pytest.raises(Exception, match=r"MinimalTokenizer\.decode\(\[-1\]\) raised ValueError"):
        wrap_checked(MinimalTokenizer()).decode([-1])


def test_a_check_of_an_option_is_not_required():
    check = Check("name", "requirement", lambda target: "")
    assert check.required
    assert not check._replace(needs="special_toks").required
