"""The flags of recording: what they mean, and what they refuse."""

from __future__ import annotations

import argparse

import pytest
from backedge.base.flags import add_to
from backedge.recording.flags import (
    BYTES_PER_MB,
    FLAGS,
    RecordSettings,
    parse_target,
    read_record_settings,
)

TARGETS = {
    "traces": ("traces", 1.0),
    "traces:0.25": ("traces", 0.25),
    "traces:0": ("traces", 0.0),
    "traces:1e-3": ("traces", 0.001),
    "/var/a:b/c": ("/var/a:b/c", 1.0),
    "/var/a:b/c:1": ("/var/a:b/c", 1.0),
    "traces:": ("traces:", 1.0),
    "7": ("7", 1.0),
}


@pytest.mark.parametrize(("text", "target"), TARGETS.items())
def test_a_folder_and_a_share(text: str, target: tuple[str, float]) -> None:
    assert parse_target(text) == target


@pytest.mark.parametrize("text", ["traces:1.5", "traces:-1", "traces:nan", ":0.5", ""])
def test_a_share_that_is_none(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError):
        parse_target(text)


def test_a_size_of_nothing_is_refused() -> None:
    with pytest.raises(SystemExit):
        read("--postprocess-record-mb", "0")


def read(*arguments: str) -> RecordSettings | None:
    parser = argparse.ArgumentParser()
    add_to(parser, FLAGS)
    return read_record_settings(parser.parse_args(arguments))


def test_without_the_flag_nothing_is_recorded() -> None:
    assert read("--postprocess-record-content", "on") is None
    assert read_record_settings(argparse.Namespace()) is None


def test_words_are_recorded_only_if_asked_for() -> None:
    assert read("--postprocess-record", "d:0.5") == RecordSettings(folder="d", sample=0.5)
    assert read(
        *("--postprocess-record", "d", "--postprocess-record-content", "on"),
        *("--postprocess-record-prompts", "off", "--postprocess-record-on-request", "on"),
        *("--postprocess-record-mb", "7"),
    ) == RecordSettings(
        folder="d",
        content=True,
        prompts=False,
        on_request=True,
        limit_bytes=7 * BYTES_PER_MB,
    )
