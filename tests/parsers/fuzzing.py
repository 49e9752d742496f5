"""How long random tests run: `FUZZ_EXAMPLES` sets the number of examples, for longer campaigns."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings


def fuzz(examples: int) -> settings:
    """Return the settings of a random test; examples: how many CI runs."""
    return settings(
        max_examples=int(os.environ.get("FUZZ_EXAMPLES", examples)),
        deadline=None,
        database=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )
