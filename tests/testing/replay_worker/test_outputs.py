"""Which recorded output a request gets."""

import pytest
from dynamo.llm.exceptions import InvalidArgument

from tests.support import TRANSCRIPTS, encode, tiny_tokenizer
from tests.testing.replay_worker.recordings import TOKENS, replay, request, tokens


@pytest.mark.parametrize(
    "transcript", TRANSCRIPTS.values(), ids=lambda transcript: transcript["id"]
)
@pytest.mark.parametrize("tokens_per_chunk", [1, 7])
def test_gives_the_transcript_with_the_requests_prompt(transcript, tokens_per_chunk):
    outputs = replay(request(transcript), tokens_per_chunk=tokens_per_chunk)
    assert tokens(outputs) == encode(transcript["output"])
    assert outputs[-1]["finish_reason"] == "stop"
    assert all(len(output["token_ids"]) == tokens_per_chunk for output in outputs[:-1])


def test_goes_on_where_a_worker_has_died():
    asked = request()
    asked["token_ids"] = asked["token_ids"] + TOKENS[:9]
    assert tokens(replay(asked)) == TOKENS[9:]


def test_an_unknown_prompt_is_refused_with_questions_that_are_known():
    with pytest.raises(InvalidArgument, match="only replays") as caught:
        replay({"token_ids": [1, 2, 3]})
    assert "What is 17 + 25?" in str(caught.value)


def weather(city):
    return f'{{"name": "get_weather", "parameters": {{"city": "{city}"}}}}'


BERGEN = "<think>\nBergen is rainy, so I look.\n</think>"
# transcript, what it writes when its calls are held to JSON
IN_JSON = [
    ("required_choice", f"[{weather('Madrid')}, {weather('Bonn')}]<|im_end|>"),
    ("required_reasoning", f"{BERGEN}[{weather('Bergen')}]<|im_end|>"),
    ("named_choice", '{"city": "Vienna", "unit": "C"}<|im_end|>'),
    ("json_object", TRANSCRIPTS["json_object"]["output"]),
]


@pytest.mark.parametrize(("name", "text"), IN_JSON)
def test_guided_decoding_decides_the_syntax_of_forced_calls(name, text):
    asked = request(TRANSCRIPTS[name], sampling_options={"guided_decoding": {"json": {}}})
    assert tiny_tokenizer().decode(tokens(replay(asked)), skip_special_tokens=False) == text
    asked["sampling_options"] = {"guided_decoding": {"structural_tag": {}}}
    assert tokens(replay(asked)) == encode(TRANSCRIPTS[name]["output"])
