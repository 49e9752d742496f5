"""The back end without a model, and what must be the same as behind a server."""

from __future__ import annotations

import subprocess
import sys

import pytest
from backedge.base.errors import SetupError
from backedge.offline import GenerationOptions
from backedge.offline.contracts import OptionValueError, UnknownOptionError
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.offline.batches import PARSED, ask, message, replay_engine, request
from tests.offline.stop_matrix import CASES
from tests.support import TINY_MODEL, TRANSCRIPTS, as_whole

REQUESTS = [request(transcript, **PARSED) for transcript in TRANSCRIPTS.values()]
EXPECTED = [as_whole(transcript["expect"]) for transcript in TRANSCRIPTS.values()]


@settings(max_examples=20, deadline=None)
@given(step=st.integers(1, 900))
def test_every_transcript_gives_what_the_server_gives(step):
    with replay_engine(engine_args={"tokens_per_step": step}) as engine:
        results = engine.generate_text_batch(REQUESTS)
    assert [message(result) for result in results] == EXPECTED
    assert [result.id for result in results] == list(TRANSCRIPTS)


def test_each_choice_gets_the_recording():
    asked = ask("Say hello.")
    with replay_engine() as engine:
        [result] = engine.generate_text_batch([asked], GenerationOptions(n=3, logprobs=2))
    assert [choice.text for choice in result.choices] == [
        TRANSCRIPTS["plain_text"]["expect"]["content"]
    ] * 3
    assert [choice.index for choice in result.choices] == [0, 1, 2]
    assert result.logprobs is not None
    assert len(result.logprobs) == len(result.token_ids)


def test_a_prompt_without_a_recording_is_that_rows_error():
    with replay_engine() as engine:
        good, bad = engine.generate_text_batch([ask("Say hello."), ask("Who are you?")])
    assert good.error is None
    assert bad.finish_reason == "error"
    assert bad.error is not None
    assert bad.error.kind == "no_recording"
    assert "Ask one of these" in bad.error.message


# arguments, error, part of the message
BAD_ARGUMENTS = [
    ({"transcript": "x"}, UnknownOptionError, "did you mean 'transcripts'"),
    ({"tokens_per_step": 0}, OptionValueError, "an integer, 1 or more"),
]


@pytest.mark.parametrize(("arguments", "error", "part"), BAD_ARGUMENTS)
def test_bad_arguments_are_refused(arguments, error, part):
    with pytest.raises(error, match=part):
        replay_engine(engine_args=arguments)


def test_a_folder_without_transcripts_is_refused(tmp_path):
    engine = replay_engine(engine_args={"transcripts": str(tmp_path)})
    with pytest.raises(SetupError, match=r"no \.jsonl file"):
        engine.generate_text_batch([ask("Say hello.")])


def test_it_imports_neither_torch_nor_an_engine():
    program = f"""
import sys
from backedge.offline import GenerationEngine, ModelLoadConfig, TextGenerationRequest
with GenerationEngine(ModelLoadConfig({str(TINY_MODEL)!r}, backend="replay")) as engine:
    asked = TextGenerationRequest(messages=[{{"role": "user", "content": "Say hello."}}])
    print(engine.generate_text_batch([asked])[0].text)
found = {{"torch", "transformers", "vllm", "sglang", "dynamo", "PIL", "numpy"}} & sys.modules.keys()
sys.exit(", ".join(found) or 0)
"""
    printed = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert (printed.stdout, printed.stderr) == ("Hello! How can I help you today?\n", "")


def truncate(text, options):
    """Return the text as the plainest reading of the rules cuts it."""
    found = [
        (text.find(stop) + len(stop), number, stop)
        for number, stop in enumerate(options["stop"])
        if stop in text
    ]
    if not found:
        return text
    end, _, stop = min(found)
    return text[: end if options.get("include_stop") else end - len(stop)]


def test_stop_strings_cut_as_the_plainest_reading_of_the_rules_does():
    cases = [case for case in CASES if "stop" in case.options]
    with replay_engine() as engine:
        results = engine.generate_text_batch([case.row for case in cases])
        uncut = [case._replace(options={**case.options, "stop": []}).row for case in cases]
        whole = engine.generate_text_batch(uncut)
    assert len(cases) > 40
    for case, result, full in zip(cases, results, whole, strict=True):
        assert result.text == truncate(full.text, case.options), case.name
