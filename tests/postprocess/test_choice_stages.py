"""Which stages a choice gets, by its request and by its model's parsers."""

import pytest
from backedge.parsers.base import ParserRequest
from backedge.parsers.passthrough import PassthroughParsers
from backedge.postprocess.choice import Choice, PostprocessSetup
from backedge.postprocess.fallback import FallbackParser
from backedge.postprocess.postprocessor import log_failure
from backedge.postprocess.special_tokens import SpecialTokenHider
from backedge.postprocess.stage_timing import StageClock
from backedge.postprocess.stop_strings import StopFilteredParser
from backedge.tokenization.detokenizer import DetokenizerOptions

from tests.support import params, tiny_detokenizers


class SeeingParsers(PassthroughParsers):
    """Parsers that have to see special tokens."""

    def shows_special_tokens(self, request):
        return True


SHOWN = DetokenizerOptions(skip_special_tokens=False)
CASES = [
    (PassthroughParsers, {}, FallbackParser, True),
    (PassthroughParsers, {"stop": ["x"]}, StopFilteredParser, False),
    (SeeingParsers, {}, SpecialTokenHider, False),
    (SeeingParsers, {"detokenizer": SHOWN}, FallbackParser, True),
    (SeeingParsers, {"stop": ["x"]}, StopFilteredParser, False),
    (PassthroughParsers, {"logprobs": 0}, FallbackParser, False),
    (PassthroughParsers, {"return_token_ids": True}, FallbackParser, False),
    (PassthroughParsers, {"parser": ParserRequest(include_reasoning=False)}, FallbackParser, False),
    (
        PassthroughParsers,
        {"parser": ParserRequest(parallel_tool_calls=False)},
        FallbackParser,
        False,
    ),
]


@pytest.mark.parametrize(("parsers", "fields", "outermost", "reads_runs"), CASES)
def test_stages(parsers, fields, outermost, reads_runs):
    setup = PostprocessSetup(tiny_detokenizers(), parsers(), "degrade", log_failure)
    choice = Choice(params(**fields), 0, (), setup, StageClock())
    assert type(choice.parser) is outermost
    assert (choice.stop is not None) == bool(fields.get("stop"))
    assert choice.reads_runs == reads_runs
