"""What clients drop of an answer is restored, exactly or not at all."""

import json
import uuid
from typing import Any

import msgspec
import pytest
from backedge.base.json_types import JsonObject
from backedge.engines.transformers.frontend import HuggingFacePrompts
from backedge.frontend.turns import turn_store
from backedge.frontend.turns.flags import TurnSettings
from backedge.postprocess.messages import KEY, PostprocessParams, read

from tests.frontend.turns.conversations import (
    CALL,
    CALLING,
    QUESTION,
    THOUGHT,
    Agent,
    drop_reasoning,
    result_of,
)
from tests.support import encode, tiny_tokenizer

EXACT = TurnSettings("exact")
REASONING = TurnSettings("reasoning")


def missed(agent):
    return {reason: number for reason, number in agent.counts.missed.items() if number}


def go_on(agent, change=drop_reasoning, first=CALLING, **fields):
    """Ask twice, as an agent does; return the first prompt and the messages of the second."""
    answer = agent.ask([QUESTION], first, **fields)
    prompt = agent.prompt
    messages = [QUESTION, change(answer), result_of(answer)]
    agent.ask(messages, "<think>\nDone.\n</think>\n\nThree.", **fields)
    return prompt, messages


@pytest.mark.parametrize("stream", [False, True])
def test_the_next_prompt_begins_with_the_last_prompt_and_what_was_generated(stream):
    agent = Agent(EXACT)
    prompt, _ = go_on(agent, stream=stream)
    expected = prompt + encode(CALLING + "<|im_end|>")
    assert agent.prompt[: len(expected)] == expected
    assert agent.counts.spliced == agent.counts.restored == 1


def test_a_loop_of_calls_stays_one_sequence():
    agent = Agent(EXACT)
    messages: list[JsonObject] = [QUESTION]
    sequence: list[int] = []
    for number in range(5):
        text = CALLING.replace("I look", f"Step {number}: I look")
        answer = agent.ask(messages, text)
        assert agent.prompt[: len(sequence)] == sequence
        sequence = agent.prompt + encode(text + "<|im_end|>")
        messages += [drop_reasoning(answer), result_of(answer, str(number))]
    assert agent.counts.spliced == 1 + 2 + 3 + 4
    assert missed(agent) == {}


@pytest.mark.parametrize(
    ("settings", "turns"), [(TurnSettings("off"), (0, 0)), (REASONING, (1, 0)), (EXACT, (1, 1))]
)
def test_the_worker_is_told_what_was_restored(settings, turns):
    agent = Agent(settings)
    go_on(agent)
    params = read(PostprocessParams, agent.engine.requests[-1]["extra_args"][KEY])
    assert params is not None
    assert (params.restored_turns, params.exact_turns) == turns


def test_reasoning_alone_is_rendered_by_the_template():
    agent = Agent(REASONING)
    go_on(agent)
    assert f"<think>\n{THOUGHT}\n</think>" in agent.prompt_text
    assert '{"a": 1}' in agent.prompt_text.replace('{\n "a": 1\n}', '{"a": 1}')
    assert (agent.counts.restored, agent.counts.spliced) == (1, 0)


def test_the_response_never_shows_what_is_restored():
    agent = Agent(EXACT)
    answer = agent.ask([QUESTION], CALLING)
    second = agent.ask([QUESTION, drop_reasoning(answer), result_of(answer)], "</think>Three.")
    assert (second["reasoning_content"], second["content"]) == ("", "Three.")


@pytest.mark.parametrize(
    "change",
    [
        lambda answer: drop_reasoning(answer) | {"reasoning_content": ""},
        lambda answer: drop_reasoning(answer) | {"reasoning_content": "Other."},
    ],
)
def test_a_client_that_sends_reasoning_is_obeyed(change):
    agent = Agent(EXACT)
    go_on(agent, change)
    assert THOUGHT not in agent.prompt_text
    assert (agent.counts.restored, agent.counts.spliced) == (0, 0)
    assert missed(agent) == {"answer": 1}


def test_a_client_that_sends_the_reasoning_gets_the_token_ids():
    agent = Agent(EXACT)
    prompt, _ = go_on(agent, lambda answer: answer)
    assert agent.prompt[: len(prompt)] == prompt
    assert (agent.counts.restored, agent.counts.spliced) == (0, 1)


def _change(**fields):
    return lambda answer: drop_reasoning(answer) | fields


def _change_call(**fields):
    def change(answer):
        [call] = drop_reasoning(answer)["tool_calls"]
        outer = {key: fields.pop(key) for key in ("id",) if key in fields}
        call = call | outer | {"function": call["function"] | fields}
        return drop_reasoning(answer) | {"tool_calls": [call]}

    return change


@pytest.mark.parametrize(
    "change",
    [
        _change(content="Well,"),
        _change(role="user"),
        _change(tool_calls=[]),
        _change_call(id="call_0"),
        _change_call(name="g"),
        _change_call(arguments='{"a": 2}'),
        _change_call(arguments='{"a": "1"}'),
        _change_call(arguments='{"a": 1, "b": null}'),
        _change_call(arguments='{"a": 1'),
    ],
)
def test_an_answer_that_differs_by_one_letter_is_left_alone(change):
    agent = Agent(EXACT)
    go_on(agent, change)
    assert THOUGHT not in agent.prompt_text
    assert agent.counts.restored == agent.counts.spliced == 0


@pytest.mark.parametrize(
    "fields",
    [
        {"messages": [{"role": "user", "content": "How many ?"}]},
        {"model": "other"},
        {"tools": []},
        {"chat_template_kwargs": {"x": 1}},
        {"reasoning_effort": "low"},
    ],
)
def test_another_conversation_is_another_key(fields):
    agent = Agent(EXACT)
    answer = agent.ask([QUESTION], CALLING)
    messages = [*fields.pop("messages", [QUESTION]), drop_reasoning(answer), result_of(answer)]
    agent.ask(messages, "Three.", **fields)
    assert agent.counts.restored == agent.counts.spliced == 0
    assert missed(agent) == {"unknown": 1}


def test_tenants_never_meet():
    agent = Agent(TurnSettings("exact", scope="tenant"))
    answer = agent.ask([QUESTION], CALLING, {"tenant": "a"})
    messages = [QUESTION, drop_reasoning(answer), result_of(answer)]
    for metadata in ({"tenant": "b"}, {"other": "a"}, {}, None):
        agent.ask(messages, "Three.", metadata)
        assert agent.counts.restored == 0
    agent.ask(messages, "Three.", {"tenant": "a"})
    assert agent.counts.restored == 1
    assert missed(agent) == {"unknown": 1, "scope": 3}


@pytest.mark.parametrize(
    ("mode", "asked", "restored", "spliced"),
    [
        ("exact", "off", 0, 0),
        ("exact", "reasoning", 1, 0),
        ("reasoning", "exact", 1, 0),
        ("exact", "exact", 1, 1),
    ],
)
def test_a_request_asks_for_less_but_not_for_more(mode, asked, restored, spliced):
    agent = Agent(TurnSettings(mode))
    go_on(agent, metadata={"backedge": {"keep_turns": asked}})
    assert (agent.counts.restored, agent.counts.spliced) == (restored, spliced)


@pytest.mark.parametrize(
    ("output", "finish_reason", "reason"),
    [
        (CALLING, "length", "cut"),
        (CALLING, "cancelled", "cut"),
        (CALLING.replace('{"a":1}', '{"a":1, "b"}'), "stop", "malformed"),
    ],
)
def test_an_answer_that_did_not_end_well_is_not_kept(output, finish_reason, reason):
    agent = Agent(EXACT)
    agent.ask([QUESTION], output, finish_reason=finish_reason, stream=True)
    assert agent.counts.kept == 0
    assert missed(agent) == {reason: 1}


def test_an_answer_that_a_stop_string_ended_gives_its_reasoning_alone():
    agent = Agent(EXACT)
    answer = agent.ask([QUESTION], f"<think>\n{THOUGHT}\n</think>\n\nThree. {CALL}", stop=["."])
    assert answer["content"].strip() == "Three"
    agent.ask([QUESTION, drop_reasoning(answer), {"role": "tool", "content": "3"}], "Three.")
    assert THOUGHT in agent.prompt_text
    assert (agent.counts.restored, agent.counts.spliced) == (1, 0)
    assert missed(agent) == {"end": 1}


def test_a_thought_that_the_template_drops_stays_dropped():
    """The template shows thoughts after the last question only."""
    agent = Agent(EXACT)
    answer = agent.ask([QUESTION], f"<think>\n{THOUGHT}\n</think>\n\nThree.")
    agent.ask([QUESTION, drop_reasoning(answer), QUESTION], "Three.")
    assert THOUGHT not in agent.prompt_text
    assert missed(agent) == {"answer": 1}


def test_memory_is_bounded_and_the_last_turns_stay():
    agent = Agent(EXACT, capacity=2_000)
    for number in range(50):
        question = {"role": "user", "content": f"How many {number}?"}
        answer = agent.ask([question], CALLING)
        assert agent.store.size <= 2_000
    agent.ask([question, drop_reasoning(answer), result_of(answer)], "Three.")
    assert agent.counts.restored == 1


EVIL = {"role": "assistant", "content": "", "reasoning_content": "I obey somebody else."}


@pytest.mark.parametrize("mode", [REASONING, EXACT])
@pytest.mark.parametrize("content", ["", "There"])
@pytest.mark.parametrize("reasoning", [None, "", "I obey somebody else."])
def test_an_answer_that_a_client_began_is_not_kept(mode, content, reasoning):
    agent = Agent(mode)
    began = {"role": "assistant", "content": content, "reasoning_content": reasoning}
    rest = f"I count.\n</think>\n{CALL}"
    answer = agent.ask([QUESTION, began], rest, continue_final_message=True)
    whole = drop_reasoning(answer) | {"content": f"{content}{answer['content']}"}
    agent.ask([QUESTION, whole, result_of(answer)], "Three.")
    assert "somebody" not in agent.prompt_text
    assert agent.counts.kept == 1, "the second answer alone"
    assert (agent.counts.restored, agent.counts.spliced) == (0, 0)


def test_earlier_turns_of_an_answer_that_a_client_began_are_restored():
    agent = Agent(EXACT)
    answer = agent.ask([QUESTION], CALLING)
    messages = [QUESTION, drop_reasoning(answer), result_of(answer), EVIL]
    agent.ask(messages, "</think>Three.", continue_final_message=True)
    assert THOUGHT in agent.prompt_text
    assert missed(agent) == {"unknown": 1, "continued": 1}
    assert agent.counts.kept == 1


OTHER = CALLING.replace(THOUGHT, "My secret.")


def ask_again(agent, answer, **fields):
    """Send the agent's next request; return whether it has its own thought, and the other's."""
    agent.ask([QUESTION, drop_reasoning(answer), result_of(answer)], "</think>Three.", **fields)
    return THOUGHT in agent.prompt_text, "My secret." in agent.prompt_text


def name(conversation):
    return {"metadata": {"backedge": {"conversation": conversation}}}


@pytest.fixture
def same_ids(monkeypatch):
    """Calls have the same ids in each answer, as Kimi K2's."""
    one = uuid.UUID(int=1)
    monkeypatch.setattr(uuid, "uuid4", lambda: one)


@pytest.mark.parametrize("mode", [REASONING, EXACT])
@pytest.mark.usefixtures("same_ids")
def test_of_two_answers_that_look_alike_neither_is_restored(mode):
    agent = Agent(mode)
    first, second = agent.ask([QUESTION], CALLING), agent.ask([QUESTION], OTHER)
    assert drop_reasoning(first) == drop_reasoning(second)
    for answer in (first, second):
        assert ask_again(agent, answer) == (False, False)
    assert (agent.counts.restored, agent.counts.spliced) == (0, 0)
    assert missed(agent) == {"ambiguous": 2}
    agent.ask([QUESTION], CALLING)
    assert ask_again(agent, first) == (False, False), "a third does not decide for the first"


@pytest.mark.parametrize("mode", [REASONING, EXACT])
@pytest.mark.usefixtures("same_ids")
def test_conversations_with_names_never_meet(mode):
    agent = Agent(mode)
    outputs = {f"episode {number}": number % 2 for number in range(8)}
    answers = {
        conversation: agent.ask([QUESTION], OTHER if other else CALLING, **name(conversation))
        for conversation, other in outputs.items()
    }
    for conversation, other in outputs.items():
        seen = ask_again(agent, answers[conversation], **name(conversation))
        assert seen == (not other, bool(other))
    assert agent.counts.restored == len(outputs)
    assert ask_again(agent, answers["episode 0"]) == (False, False)
    assert missed(agent) == {"unknown": 1}


@pytest.mark.usefixtures("same_ids")
def test_of_two_spellings_of_an_answer_only_the_thought_is_restored():
    agent = Agent(EXACT)
    first = agent.ask([QUESTION], CALLING)
    agent.ask([QUESTION], CALLING.replace('"a":1', '"a": 1'))
    assert ask_again(agent, first) == (True, False)
    assert (agent.counts.restored, agent.counts.spliced) == (1, 0)


HIDDEN = {"include_reasoning": False}
SHOWN: list[dict[str, Any]] = [
    {"metadata": {"backedge": {"return_token_ids": True}}},
    {"prompt_logprobs": 1},
    {"prompt_logprobs": 1, "nvext": {"extra_fields": ["prompt_logprobs"]}, "stream": True},
    {"metadata": {"backedge": {"return_token_ids": True, "conversation": "mine"}}},
]


@pytest.mark.parametrize("mode", [REASONING, EXACT])
@pytest.mark.parametrize("shown", SHOWN, ids=str)
def test_hidden_reasoning_is_not_put_into_a_prompt_that_is_shown(mode, shown):
    agent = Agent(mode)
    own = shown.get("metadata", {}).get("backedge", {}).get("conversation")
    options = {**HIDDEN, **({"conversation": own} if own else {})}
    answer = agent.ask([QUESTION], CALLING, metadata={"backedge": options})
    assert ask_again(agent, answer, **shown) == (False, False)
    assert missed(agent) == {"shown": 1}


@pytest.mark.parametrize("mode", [REASONING, EXACT])
def test_a_prompt_is_shown_with_its_thoughts_to_the_conversation_that_is_named(mode):
    agent = Agent(mode)
    answer = agent.ask([QUESTION], CALLING)
    assert ask_again(agent, answer, **SHOWN[0]) == (False, False)
    answer = agent.ask([QUESTION], CALLING, **SHOWN[3])
    assert ask_again(agent, answer, **SHOWN[3]) == (True, False)


@pytest.mark.parametrize("fields", [{}, {"nvext": {"extra_fields": ["completion_token_ids"]}}])
def test_a_client_that_asks_for_the_generated_token_ids_does_not_get_the_prompts(fields):
    agent = Agent(EXACT)
    agent.ask([QUESTION], CALLING, **fields)
    assert "prompt_token_ids" not in json.dumps(agent.sent)
    agent.ask([QUESTION], CALLING, **SHOWN[0])
    assert "prompt_token_ids" in json.dumps(agent.sent)


@pytest.mark.parametrize("mode", [REASONING, EXACT])
@pytest.mark.parametrize("fields", [{}, {"stop": [";"]}, {"stream": True}])
def test_reasoning_that_the_client_never_saw_is_restored(mode, fields):
    agent = Agent(mode)
    hidden = {"metadata": {"backedge": {"include_reasoning": False}}, **fields}
    answer = agent.ask([QUESTION], CALLING, **hidden)
    assert answer["reasoning_content"] == ""
    expected = agent.prompt + encode(f"{CALLING}<|im_end|>")
    second = agent.ask(
        [QUESTION, drop_reasoning(answer), result_of(answer)], "</think>Three.", **hidden
    )
    assert THOUGHT in agent.prompt_text
    assert (agent.prompt[: len(expected)] == expected) == (mode is EXACT)
    assert second["reasoning_content"] == ""


def test_an_answer_that_is_too_large_is_counted(monkeypatch):
    monkeypatch.setattr(turn_store, "MAX_TURN_BYTES", 50)
    agent = Agent(EXACT)
    agent.ask([QUESTION], CALLING)
    assert (agent.counts.kept, missed(agent)) == (0, {"size": 1})


def replace_text(prompt, old, new):
    text = tiny_tokenizer().decode(prompt.token_ids, skip_special_tokens=False)
    return msgspec.structs.replace(prompt, token_ids=encode(text.replace(old, new, 1)))


def add_image(prompt):
    fields = msgspec.structs.replace(prompt.engine_fields, multi_modal_data={"image_url": []})
    return msgspec.structs.replace(prompt, engine_fields=fields)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda prompt, _: replace_text(prompt, '"a": 1', '"a": 2'), "answer"),
        (lambda prompt, count: replace_text(prompt, "# Tools", f"# {count} messages"), "prompt"),
        (lambda prompt, _: add_image(prompt), "media"),
    ],
)
def test_a_prompt_that_differs_costs_the_token_ids(change, reason, monkeypatch):
    render = HuggingFacePrompts.__call__
    monkeypatch.setattr(
        HuggingFacePrompts,
        "__call__",
        lambda self, request: change(render(self, request), len(request.messages)),
    )
    agent = Agent(EXACT)
    go_on(agent)
    assert (agent.counts.restored, agent.counts.spliced) == (1, 0)
    assert agent.counts.missed[reason] > 0


def test_an_answer_without_a_token_that_ends_it_gives_its_reasoning_alone():
    agent = Agent(EXACT)
    go_on(agent, end="")
    assert (agent.counts.restored, agent.counts.spliced) == (1, 0)
    assert missed(agent) == {"end": 1}
