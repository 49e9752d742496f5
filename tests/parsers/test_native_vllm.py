"""vLLM's own parsers, each on a sample of its family's output, through the whole core."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

import msgspec
import pytest
from backedge.parsers.errors import UnknownParserError, UnusableParserError
from backedge.parsers.native.vllm import VllmParsers
from backedge.postprocess import ChoiceDelta
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from vllm.reasoning import ReasoningParserManager
from vllm.tool_parsers import ToolParserManager

from tests.parsers.cases import ARCHITECTURE_BOUND, CASES, KNOWN_DIFFERENCES, REFUSED, Case
from tests.parsers.core import Core, as_one, core_of, cut, every_token, missing, outcome, output_of, parsers_of
from tests.samples.reasoning import REASONING_SAMPLES
from tests.samples.tokenizers import bpe
from tests.samples.tool_calls import TOOL_CALLS

USABLE = [case for case in CASES.values() if not missing(case.sample) and case.id not in REFUSED]
# With a reasoning parser such text may be reasoning; Harmony has no text without a header.
ANSWERS_IN_PLAIN_TEXT = [
    case for case in USABLE if case.reasoning_parser is None and case.sample.tokenizer != "harmony"
]
BROKEN_INSTALLS = [case for case in CASES.values() if missing(case.sample)]
few_cuts = settings(
    max_examples=6, deadline=None, database=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


def case_id(case: Case) -> str:
    return case.id


@pytest.fixture(params=USABLE, ids=case_id)
def case(request: pytest.FixtureRequest) -> Case:
    found: Case = request.param
    return found


@pytest.fixture
def core(case: Case) -> Core:
    return core_of(case.sample, parsers_of(case.sample, case.tool_call_parser, case.reasoning_parser))


def without_ids(whole: ChoiceDelta) -> ChoiceDelta:
    """Return the answer without its calls' ids, which are random."""
    calls = [msgspec.structs.replace(call, id=None) for call in whole.delta.tool_calls]
    return msgspec.structs.replace(whole, delta=msgspec.structs.replace(whole.delta, tool_calls=calls))


@pytest.mark.parametrize(
    ("registered", "samples"),
    [
        (ToolParserManager.list_registered, TOOL_CALLS),
        (ReasoningParserManager.list_registered, REASONING_SAMPLES),
    ],
    ids=["tool parsers", "reasoning parsers"],
)
def test_every_name_that_vllm_registers_has_a_sample(registered, samples):
    missing_names = sorted(set(registered()) - {key.split()[0] for key in samples})
    surplus = sorted({key.split()[0] for key in samples} - set(registered()))
    assert not missing_names, f"vLLM registers {missing_names}: add a sample of each to tests/samples/"
    assert not surplus, f"vLLM no longer registers {surplus}: remove their samples from tests/samples/"


def test_every_exception_is_of_a_case():
    assert set(KNOWN_DIFFERENCES) | set(REFUSED) <= set(CASES)


def test_a_sample_gives_what_its_model_meant(case: Case, core: Core):
    given_outcome = outcome(core.run(every_token(output_of(core, case.sample))))
    difference = KNOWN_DIFFERENCES.get(case.id)
    if difference is not None:
        assert given_outcome != case.sample.expected, f"{case.id} works now: remove it from KNOWN_DIFFERENCES"
    assert given_outcome == (difference.gives if difference else case.sample.expected)
    assert core.failures == []


@few_cuts
@given(cuts=st.sets(st.integers(1, 200)))
def test_every_chunking_gives_the_same(case: Case, core: Core, cuts: Collection[int]):
    token_ids = output_of(core, case.sample)
    by_token = without_ids(core.run(every_token(token_ids)))
    assert without_ids(core.run(cut(token_ids, cuts))) == by_token


def test_one_chunk_and_no_stream_give_the_same(case: Case, core: Core):
    token_ids = output_of(core, case.sample)
    by_token = without_ids(core.run(every_token(token_ids)))
    assert without_ids(core.run(as_one(token_ids))) == by_token
    core.spec = msgspec.structs.replace(core.spec, stream=False)
    assert without_ids(core.run(every_token(token_ids))) == by_token


@pytest.mark.parametrize("case", ANSWERS_IN_PLAIN_TEXT, ids=case_id, indirect=True)
def test_plain_text_passes(case: Case, core: Core):
    """A model may always answer with text alone, though tools are there."""
    text = "Hello there, olé."
    sample = replace(case.sample, output=text)
    whole = core.run(every_token(output_of(core, sample)))
    # SentencePiece writes the space before a word, also before the first.
    content = (whole.delta.content or "").removeprefix(" " if sample.tokenizer == "sentencepiece" else "")
    # muse_glimmer's model never writes text without a header before it.
    assert content == ("" if case.id == "tool muse_glimmer" else text)
    assert whole.delta.tool_calls == []


@pytest.mark.parametrize("case_", [CASES[key] for key in REFUSED], ids=case_id)
def test_a_parser_that_cannot_stream_is_refused(case_: Case):
    with pytest.raises(UnusableParserError, match=REFUSED[case_.id]):
        parsers_of(case_.sample, case_.tool_call_parser, case_.reasoning_parser)


@pytest.mark.parametrize("case_", BROKEN_INSTALLS, ids=case_id)
def test_a_parser_whose_module_is_missing_is_refused(case_: Case):
    with pytest.raises(UnusableParserError, match=case_.sample.needs):
        parsers_of(case_.sample, case_.tool_call_parser, case_.reasoning_parser)


@pytest.mark.parametrize("case_", [CASES[key] for key in sorted(ARCHITECTURE_BOUND)], ids=case_id)
def test_a_parser_of_another_architecture_is_refused(case_: Case):
    """They say where reasoning ends and leave the rest to vLLM's Harmony parser (pitfall 22)."""
    with pytest.raises(UnusableParserError, match="cannot split a stream"):
        VllmParsers(bpe(), case_.tool_call_parser, case_.reasoning_parser)


@pytest.mark.parametrize("names", [("no_such", None), (None, "no_such")], ids=["tool parser", "reasoning parser"])
def test_an_unknown_name_is_refused_with_the_known_ones(names: tuple[str | None, str | None]):
    with pytest.raises(UnknownParserError, match=r"'no_such' is not known; set it to one of: .*glm45"):
        VllmParsers(bpe(), *names)
