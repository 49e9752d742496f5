"""Names of options are checked, and every back end says what it can do."""

import pytest
from backedge.base.engines import has_engine
from backedge.base.errors import SetupError
from backedge.offline.contracts import UnknownOptionError, check_names
from backedge.offline.inference_backend import (
    CAPABILITIES,
    ENGINES,
    LOGPROBS,
    REPLAY,
    able_backends,
    backend_class,
    loads,
)

NAMES = [name for name, (folder, _) in ENGINES.items() if has_engine(folder)]


@pytest.mark.parametrize("name", [*NAMES, REPLAY[0]])
def test_a_back_end_has_its_name_and_known_capabilities(name):
    found = backend_class(name)
    assert found.name == name
    assert found.capabilities <= set(CAPABILITIES)


def test_who_is_able():
    assert "replay" in able_backends(LOGPROBS)
    assert able_backends("flying") == []


def test_names_are_checked():
    check_names("it", {"a": 1}, ["a", "b"])
    with pytest.raises(UnknownOptionError, match="it has no option 'c'; known: a, b"):
        check_names("it", {"c": 1}, ["a", "b"])


class OfItsOwnError(Exception):
    """As vLLM's errors are, which are neither ValueErrors nor RuntimeErrors."""


@pytest.mark.parametrize("error", [ValueError, OSError, MemoryError, OfItsOwnError])
def test_weights_that_an_engine_refuses(error):
    with pytest.raises(SetupError, match=r"vLLM cannot load 'm' .*no room"), loads("vLLM", "m"):
        raise error("no room")
