"""How much of the campaign runs: `HOSTILE_TIMES` is set by `make test-hostile`."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

# How many times the random examples of `make test`; with more than one, all fixed cases as well.
TIMES = int(os.environ.get("HOSTILE_TIMES", "1"))
WHOLE = TIMES > 1


def examples(number: int) -> settings:
    """Return the settings of a random test. number: of examples in `make test`."""
    return settings(
        max_examples=number * TIMES,
        deadline=None,
        database=None,
        suppress_health_check=[
            HealthCheck.too_slow,
            HealthCheck.data_too_large,
            HealthCheck.function_scoped_fixture,
        ],
    )
