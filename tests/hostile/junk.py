"""Values of wrong types and sizes, and how they get into a message."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

SCALARS = (
    st.sampled_from([None, True, False, 0, 1, -1, 128, 129, 1 << 31, 1 << 32, 1 << 63, 1 << 70])
    | st.sampled_from([-(1 << 40), 0.5, float("nan"), float("inf"), -float("inf"), 1e308])
    | st.sampled_from(["", "error", "error: x", "\x00", "\ud83d", "x" * 5000, "[" * 3000, "stop"])
    | st.text(max_size=5)
    | st.integers()
)
KEYS = st.sampled_from(["index", "token_ids", "error", "deltas", "version", "function"])
JUNK = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(KEYS | st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=6,
)


def put_junk(message: Any, draw: Any) -> None:
    """Replace, add or remove a value somewhere in `message`, an object as of JSON."""
    while True:
        places = list(message) if isinstance(message, dict) else [*range(len(message))]
        if not places:
            if isinstance(message, dict):
                message[draw(KEYS)] = draw(JUNK)
            else:
                message.append(draw(JUNK))
            return
        place = draw(st.sampled_from(places))
        inner = message[place]
        if isinstance(inner, dict | list) and draw(st.booleans()):
            message = inner
        elif draw(st.integers(0, 9)):
            message[place] = draw(JUNK)
            return
        else:
            del message[place]
            return
