"""How deep JSON is nested."""

import pytest
from backedge.base.json_types import is_deeper


@pytest.mark.parametrize(
    ("value", "depth"), [(1, 0), ("[[[", 0), ([], 1), ({}, 1), ([[1], {"a": [2]}], 3)]
)
def test_the_depth_of_a_value(value, depth):
    assert not is_deeper(value, depth)
    assert depth == 0 or is_deeper(value, depth - 1)
    assert not is_deeper(value, 128)
