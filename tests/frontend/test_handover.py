"""`dynamo.frontend` with one of our switches continues as `backedge.frontend`."""

import os
import sys

import pytest
from backedge.frontend import handover

DYNAMO = ["python", "-X", "dev", "-m", "dynamo.frontend"]
OURS = ["python", "-X", "dev", "-m", "backedge.frontend"]


@pytest.fixture
def continued(monkeypatch):
    """Return what one command line continues as; None if it does not."""

    def continue_(arguments):
        started = []
        monkeypatch.setattr(os, "execv", lambda _, arguments: started.append(arguments))
        monkeypatch.setattr(sys, "orig_argv", arguments)
        handover.replace_dynamo()
        return next(iter(started), None)

    return continue_


@pytest.mark.parametrize("switch", handover.PROCESSING[0])
def test_each_switch_starts_our_frontend(continued, switch):
    flags = ["--router-mode", "kv", switch, "--allow-tokenizer-module", "m"]
    assert continued([*DYNAMO, *flags]) == [*OURS, *flags]


@pytest.mark.parametrize("processor", ["--dyn-chat-processor sglang", "--dyn-chat-processor=vllm"])
def test_the_chat_processor_chooses_no_tokenizer(continued, processor):
    flags = [*processor.split(), "--vllm_processing"]
    assert continued([*DYNAMO, *flags]) == [*OURS, "--vllm_processing"]


def test_a_variable_is_a_switch(continued, monkeypatch):
    monkeypatch.setenv("BACKEDGE_SGLANG_PROCESSING", "on")
    assert continued(DYNAMO) == OURS
    monkeypatch.setenv("BACKEDGE_SGLANG_PROCESSING", "off")
    assert continued(DYNAMO) is None


@pytest.mark.parametrize(
    "arguments",
    [
        [*DYNAMO, "--router-mode", "kv"],
        ["python", "-m", "dynamo.vllm", "--vllm-processing"],
        [*OURS, "--vllm-processing"],
        ["python", "-c", "print()", "--vllm-processing"],
        ["python"],
    ],
)
def test_other_processes_are_left_alone(continued, arguments):
    assert continued(arguments) is None
