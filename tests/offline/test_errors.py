"""Errors say what happened, the value, and what to change."""

from backedge.offline.contracts import CapabilityError, suggest


def test_the_nearest_name_or_all_of_them():
    assert suggest("temprature", ["top_p", "temperature"]) == "did you mean 'temperature'?"
    assert suggest("zzz", ["b", "a"]) == "known: a, b."
    assert suggest("zzz", []) == "known: none."


def test_a_capability_names_request_capability_and_remedy():
    error = CapabilityError("request 'a'", "vlm", "replay", ["hf"])
    assert str(error) == (
        "request 'a' needs the capability 'vlm', which the back end 'replay' lacks; use 'hf', or "
        "name one as fallback_backend."
    )
    assert str(CapabilityError("x", "y", "z", [])).endswith("lacks; leave it out.")
