"""A tool call in mistral-common's tokens, streamed: what a worker behind the adapter makes of it."""

from pathlib import Path

import mistral_common
import pytest
from backedge.parsers.base import ParserNames, ParserRequest
from backedge.parsers.parser_lookup import linear_parsers
from backedge.postprocess.aggregate import aggregate_deltas
from backedge.postprocess.messages import Chunk
from backedge.postprocess.postprocessor import Postprocessor
from backedge.tokenization.detokenizer import detokenizers, read_vocabulary
from backedge.tokenization.mistral import MistralTokenizer

from tests.support import params

DATA = Path(mistral_common.__file__).parent / "data"
TOOL = {
    "type": "function",
    "function": {"name": "weather", "parameters": {"type": "object", "properties": {}}},
}
FILES = ["tekken_240911.json", "mistral_instruct_tokenizer_241114.model.v7"]
ARGUMENTS = '{"city": "Zürich 😀"}'


@pytest.mark.parametrize("size", [1, 3, 1000])
@pytest.mark.parametrize("file", FILES)
def test_a_call_streams(file, size):
    tokenizer = MistralTokenizer(str(DATA / file))
    marker = next(
        token_id
        for token_id, text in zip(tokenizer.all_special_ids, tokenizer.special_toks, strict=True)
        if text == "[TOOL_CALLS]"
    )
    call = '[{"name": "weather", "arguments": ' + ARGUMENTS + "}]"
    token_ids = [*tokenizer.encode("Let me see."), marker, *tokenizer.encode(call)]
    parsers = linear_parsers(ParserNames("mistral"), read_vocabulary(tokenizer))
    asked = params(parser=ParserRequest(tools=[TOOL], tool_choice="auto"))
    post = Postprocessor(asked, detokenizers(tokenizer), parsers)
    deltas = []
    for start in range(0, len(token_ids), size):
        part = token_ids[start : start + size]
        last = start + size >= len(token_ids)
        deltas += post.feed(Chunk(token_ids=part, finish_reason="stop" if last else None))
    choice = aggregate_deltas(deltas)
    assert choice.delta.content == "Let me see."
    (made,) = choice.delta.tool_calls
    assert (made.function.name, made.function.arguments) == ("weather", ARGUMENTS)
    assert choice.finish_reason == "tool_calls"
