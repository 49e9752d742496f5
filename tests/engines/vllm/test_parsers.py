"""vLLM's own parsers, each on a sample of its family's output, through the whole post-processor."""

from __future__ import annotations

import pytest
from backedge.base.errors import (
    REASONING_FLAG,
    TOOL_CALL_FLAG,
    UnknownParserError,
    UnusableParserError,
)
from backedge.engines.vllm.parsers import VllmParsers, known_names
from backedge.parsers.base import ParserNames

from benchmarks.samples.reasoning import REASONING_SAMPLES
from benchmarks.samples.tokenizers import bpe
from benchmarks.samples.tool_calls import TOOL_CALLS
from tests.engines.parsers.support import (
    SampleTests,
    case_id,
    check_refused,
    content_of_plain_text,
    in_plain_text,
    usable,
)
from tests.parsers.cases import ARCHITECTURE_BOUND, CASES, KNOWN_DIFFERENCES, REFUSED, Case
from tests.parsers.sample_model import is_missing

USABLE = usable(CASES, REFUSED)
BROKEN_INSTALLS = [case for case in CASES.values() if is_missing(case.sample)]


@pytest.mark.parametrize(
    ("flag", "samples"),
    [
        (TOOL_CALL_FLAG, TOOL_CALLS),
        (REASONING_FLAG, REASONING_SAMPLES),
    ],
    ids=["tool parsers", "reasoning parsers"],
)
def test_every_name_that_vllm_registers_has_a_sample(flag, samples):
    missing_names = sorted(set(known_names(flag)) - {key.split()[0] for key in samples})
    surplus = sorted({key.split()[0] for key in samples} - set(known_names(flag)))
    assert not missing_names, (
        f"vLLM registers {missing_names}: add a sample of each to benchmarks/samples/"
    )
    assert not surplus, (
        f"vLLM no longer registers {surplus}: remove their samples from benchmarks/samples/"
    )


def test_every_exception_is_of_a_case():
    assert set(KNOWN_DIFFERENCES) | set(REFUSED) <= set(CASES)


class TestSamples(SampleTests):
    differences = KNOWN_DIFFERENCES

    @pytest.fixture(params=USABLE, ids=case_id)
    def case(self, request: pytest.FixtureRequest) -> Case:
        found: Case = request.param
        return found


@pytest.mark.parametrize("case", in_plain_text(USABLE), ids=case_id)
def test_plain_text_passes(case: Case):
    """A model may always answer with text alone, though tools are there."""
    # muse_glimmer's model never writes text without a header before it.
    expected = "" if case.id == "tool muse_glimmer" else "Hello there, olé."
    assert content_of_plain_text(case, "Hello there, olé.") == expected


@pytest.mark.parametrize("case", [CASES[key] for key in REFUSED], ids=case_id)
def test_a_parser_that_cannot_stream_is_refused(case: Case):
    check_refused(case, REFUSED[case.id])


@pytest.mark.parametrize("case", BROKEN_INSTALLS, ids=case_id)
def test_a_parser_whose_module_is_missing_is_refused(case: Case):
    check_refused(case, case.sample.needs or "")


@pytest.mark.parametrize("case", [CASES[key] for key in sorted(ARCHITECTURE_BOUND)], ids=case_id)
def test_a_parser_of_another_architecture_is_refused(case: Case):
    """They say where reasoning ends and leave the rest to vLLM's Harmony parser (pitfall 22)."""
    with pytest.raises(UnusableParserError, match="cannot split a stream"):
        VllmParsers(bpe(), case.names)


@pytest.mark.parametrize(
    "names", [("no_such", None), (None, "no_such")], ids=["tool parser", "reasoning parser"]
)
def test_an_unknown_name_is_refused_with_the_known_ones(names: tuple[str | None, str | None]):
    with pytest.raises(
        UnknownParserError, match=r"'no_such' is not known; set it to one of: .*glm45"
    ):
        VllmParsers(bpe(), ParserNames(*names))
