"""Stop tokens of an answer that a grammar holds end it here, not in the engine."""

from __future__ import annotations

from typing import Any

import pytest
from backedge.postprocess.stop_tokens import take_stop_tokens

from tests.support import params

SPECIAL = 3
HELD: dict[str, Any] = {"guided_decoding": {"json": {}}}


@pytest.mark.parametrize(
    ("sampling", "given", "taken"),
    [
        (HELD, {"stop_token_ids": [7, 9]}, [7, 9]),
        (HELD, {"stop_token_ids": [7], "stop_token_ids_visible": [9]}, [7, 9]),
        (HELD, {"stop_token_ids": [7, SPECIAL, 9]}, [7, 9]),
        (HELD, {"stop_token_ids": [SPECIAL]}, []),
        (HELD, {"stop_token_ids": None, "stop_token_ids_visible": []}, []),
        (HELD, None, []),
        ({"guided_decoding": None}, {"stop_token_ids": [7]}, []),
        (None, {"stop_token_ids": [7]}, []),
    ],
)
def test_the_engine_gets_them_without_a_grammar_alone(
    sampling: Any, given: Any, taken: list[int]
) -> None:
    rest = {"max_tokens": 3, "stop_token_ids_hidden": [2]}
    stops = None if given is None else {**given, **rest}
    request = {"sampling_options": sampling, "stop_conditions": stops}
    found = take_stop_tokens(request, params(), lambda token_id: token_id == SPECIAL)
    assert found.stop_token_ids == taken
    kept = {
        field: [one for one in ids or () if one == SPECIAL] for field, ids in (given or {}).items()
    }
    assert request["stop_conditions"] == ({**kept, **rest} if taken else stops)
