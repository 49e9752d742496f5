"""What the pools of the campaign are built of."""

from __future__ import annotations

from backedge.parsers.base import ParserFactory
from backedge.parsers.formats.catalog import FORMATS
from backedge.parsers.linear_parsers import LinearParsers, Vocabulary
from backedge.tokenization.detokenizer import DetokenizerFactory, detokenizers

from tests.support import tiny_detokenizers


def build(engine: str, name: str) -> tuple[DetokenizerFactory, ParserFactory]:
    """Return a format's linear parsers, or an engine's own of a case."""
    if engine == "linear":
        [format_] = [format_ for format_ in FORMATS if format_.name == name]
        return tiny_detokenizers(), LinearParsers(format_, None, Vocabulary())
    # Late: they import the engines.
    from benchmarks.samples.tokenizers import load_tokenizer
    from tests.parsers.cases import CASES, SGLANG_CASES
    from tests.parsers.sample_model import build_case_parsers

    case = (SGLANG_CASES if engine == "sglang" else CASES)[name]
    return detokenizers(load_tokenizer(case.sample)), build_case_parsers(case)
