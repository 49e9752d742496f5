"""A stock frontend's requests in the worker: text, stop strings, and going on elsewhere."""

import asyncio

import pytest
from backedge.postprocess.settings import MERGE_DELAYS, MergeDelays, PostprocessSettings
from backedge.worker.metrics import WorkerMetrics
from backedge.worker.stock_frontends import build_stock_postprocessor
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support import cut, encode, params, tiny_detokenizers, tiny_tokenizer
from tests.worker.scripted import NEVER, Engine, run_in_virtual_time

MARKERS = ["<think>", "</think>", "<tool_call>", "</tool_call>"]
END = encode("<|im_end|>")
LOWEST = MERGE_DELAYS["lowest"]
TEXT = "one, two 👋🏽, three <b>four</b>"


def outputs(token_ids, cuts=(), index=0, finish_reason="stop"):
    pieces = cut(token_ids, cuts) or [[]]
    return [
        {"index": index, "token_ids": piece}
        | ({"finish_reason": finish_reason} if number == len(pieces) else {})
        for number, piece in enumerate(pieces, 1)
    ]


def serve(script, prompt=(), *, markers=MARKERS, delays=LOWEST, **fields):
    """Return what the worker sends, and the engine that it asked."""
    engine = Engine([step for output in script for step in (output, 0.001)])
    stock = build_stock_postprocessor(
        tiny_detokenizers(),
        markers,
        PostprocessSettings(delays=delays),
        WorkerMetrics(),
        lambda error: error,
    )
    request = params(prompt_length=len(prompt), **fields)

    async def read():
        stream = stock.stream(engine.outputs(), request, list(prompt), engine)
        return [chunk async for chunk in stream]

    return run_in_virtual_time(read()), engine


def text(sent, index=0):
    return "".join(chunk["text"] for chunk in sent if chunk["index"] == index)


def tokens(sent, index=0):
    return [id_ for chunk in sent if chunk["index"] == index for id_ in chunk["token_ids"]]


def test_text_comes_with_all_tokens_and_the_engines_finish():
    ids = [*encode(TEXT), *END]
    sent, engine = serve(outputs(ids, range(len(ids))))
    assert (text(sent), tokens(sent), engine.aborted) == (TEXT, ids, [])
    assert [chunk.get("finish_reason") for chunk in sent] == [None] * (len(sent) - 1) + ["stop"]
    assert all("extra_args" not in chunk for chunk in sent)


def test_merged_text_is_the_whole_text():
    ids = [*encode(TEXT), *END]
    sent, _ = serve(outputs(ids, range(len(ids))), delays=NEVER)
    assert (text(sent), tokens(sent), len(sent)) == (TEXT, ids, 2)


@pytest.mark.parametrize("last", ["\n", ">\n", "one, two \n"])
def test_white_space_at_the_end_comes_before_the_finish(last):
    """Dynamo's parsers drop it otherwise; of an answer that was cut, it is the last token's."""
    ids = encode(last)
    sent, _ = serve(outputs([*encode("<tool_call>"), *ids, *END]), delays=NEVER)
    assert [chunk["text"] for chunk in sent][-2:] == [last, ""]
    assert (tokens(sent)[-2:], "finish_reason" in sent[-2]) == ([ids[-1], *END], False)
    script = outputs([*encode("<tool_call>"), *ids], finish_reason="length")
    cut_off, _ = serve(script, delays=NEVER)
    assert cut_off[-1]["text"] == last


def test_of_a_format_that_is_not_known_each_token_goes_alone():
    ids = encode("one, two, three")
    sent, _ = serve(outputs([*ids, *END]), markers=None, delays=NEVER)
    *alone, last = ids
    assert [chunk["token_ids"] for chunk in sent] == [*([one] for one in alone), [last, *END]]


STOPS = [
    ({"stop": ["three"]}, "one, two, ", "three"),
    ({"stop": ["three", "two"]}, "one, ", "two"),
    ({"stop": ["e, tw"]}, "on", "e, tw"),
    ({"stop": ["two"], "include_stop_str_in_output": True}, "one, two", "two"),
    ({"stop": ["o", "ee"], "min_tokens": 7}, None, None),
    ({"stop": ["five"]}, "one, two, three", None),
]


@pytest.mark.parametrize("delays", [LOWEST, NEVER])
@pytest.mark.parametrize(("fields", "expected", "stop"), STOPS)
def test_a_stop_string_ends_the_engines_work(fields, expected, stop, delays):
    ids = encode("one, two, three")
    sent, engine = serve(outputs([*ids, *END], range(20)), delays=delays, **fields)
    if expected is None:  # the first stop string that is complete behind the minimum
        whole = [tiny_tokenizer().decode(ids[:count]) for count in range(len(ids) + 1)]
        first = next(n for n in range(8, len(whole)) if "o" in whole[n][len(whole[7]) :]
                     or "ee" in whole[n])  # fmt: skip
        stop = "o" if "o" in whole[first][len(whole[7]) :] else "ee"
        expected = whole[first][: whole[first].index(stop, len(whole[7]) - 1)]
    assert text(sent) == expected
    assert (sent[-1].get("stop_reason"), engine.aborted) == (stop, [0] if stop else [])
    used = tiny_tokenizer().decode(tokens(sent))
    assert (stop or "") in used, "the tokens of the stop string are counted"


def test_each_choice_ends_by_itself():
    ids, other = encode("one, two, three"), encode("one, four")
    script = [*outputs(ids, index=0, finish_reason=None), *outputs([*other, *END], index=1)]
    sent, engine = serve(script, n=2, stop=["two"])
    assert (text(sent, 0), text(sent, 1)) == ("one, ", "one, four")
    assert engine.aborted == [0]
    assert [chunk["finish_reason"] for chunk in sent if "finish_reason" in chunk] == ["stop"] * 2


def test_held_back_tokens_do_not_leave_before_their_text():
    ids = encode("a <tool")
    sent, _ = serve(outputs(ids, range(9), finish_reason=None), stop=["ol!"])
    assert tiny_tokenizer().decode(tokens(sent)) == text(sent)
    assert len(tokens(sent)) < len(ids)


WORDS = [
    "one",
    ", ",
    "two",
    "<think>",
    "</think>",
    "👋🏽",
    "é",
    "世界",
    "<to",
    "ol_call>",
    "aab",
    "b",
]


@settings(max_examples=150, deadline=None)
@given(
    words=st.lists(st.sampled_from(WORDS), min_size=1, max_size=12),
    cuts=st.sets(st.integers(1, 40)),
    stop=st.lists(st.sampled_from(["ab", "aab", "two", "界", ", o", "b<", "<to"]), max_size=2),
    include=st.booleans(),
    lost=st.integers(0, 12),
    delays=st.sampled_from([LOWEST, NEVER, MergeDelays(content=0.003, tokens=0.01)]),
)
def test_another_worker_goes_on_behind_what_has_left(words, cuts, stop, include, lost, delays):
    """However the answer is cut, and wherever its worker dies: the text is the same."""
    ids = encode("".join(words))
    fields = {"stop": stop, "include_stop_str_in_output": include, "delays": delays}
    whole, _ = serve(outputs([*ids, *END]), **{**fields, "delays": NEVER})
    sent, _ = serve(outputs([*ids, *END], cuts), **fields)
    assert (text(sent), tokens(sent)) == (text(whole), tokens(whole))
    arrived = sent[: max(0, len(sent) - 1 - lost)]
    gone = tokens(arrived)
    assert gone == ids[: len(gone)]
    again, _ = serve(outputs([*ids[len(gone) :], *END], cuts), [*encode("say: "), *gone], **fields)
    assert text(arrived) + text(again) == text(whole)
    assert gone + tokens(again) == tokens(whole)
    assert again[-1].get("stop_reason") == whole[-1].get("stop_reason")


def test_an_error_of_the_engine_comes_behind_its_tokens():
    script = [*outputs(encode("one"), finish_reason=None), {"finish_reason": "error: no"}]
    sent, _ = serve([{**output, "token_ids": output.get("token_ids", [])} for output in script])
    assert text(sent[:-1]) == "one"
    assert sent[-1]["finish_reason"] == "error: no"


def test_a_client_that_leaves_ends_the_engines_stream():
    engine = Engine([*outputs(encode("one"), finish_reason=None), 1000.0])
    stock = build_stock_postprocessor(
        tiny_detokenizers(),
        MARKERS,
        PostprocessSettings(delays=LOWEST),
        WorkerMetrics(),
        lambda error: error,
    )

    async def leave():
        stream = stock.stream(engine.outputs(), params(), [], engine)
        first = await anext(stream)
        await stream.aclose()
        for _ in range(5):
            await asyncio.sleep(0)
        return first

    assert run_in_virtual_time(leave())["text"] == "one"
    assert engine.closed
