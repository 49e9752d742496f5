"""`--tool-call-parser auto` and `--reasoning-parser auto`: detect parsers from a model's files.

Unless exactly one format fits, the worker does not start, and the error lists the candidates.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection
from pathlib import Path

from ..base.errors import REASONING_FLAG, TOOL_CALL_FLAG, SetupError
from ..parsers.base import ParserNames
from ..parsers.detection import Detection, Evidence, detect_reasoning, detect_tool_calls
from ..parsers.format import Format
from ..parsers.parser_lookup import tool_format
from .probe import read_evidence

logger = logging.getLogger(__name__)

AUTO = "auto"
# The files that detection reads. The engine's own code downloads weights.
SMALL_FILES = ("*.json", "*.jinja", "tokenizer.model*")


class NoParserError(SetupError):
    """No parser, or more than one, fits a model for `auto`."""

    def __init__(self, flag: str, model: str, detection: Detection) -> None:
        self.detection = detection
        listed = "; ".join(f"{one.name}: {one.reason}" for one in detection.candidates)
        remedy = f"set {flag} to one of them ({listed})" if listed else f"set {flag} to a name"
        super().__init__(
            f"{flag} auto finds no parser for {model!r}: {detection.reason}. Please {remedy}, or "
            "leave the flag out. `backedge doctor` shows more."
        )


def resolve_auto(
    names: ParserNames,
    model: str,
    *,
    revision: str | None = None,
    chat_template: str | None = None,
    known: Callable[[str], Collection[str]] = lambda _: (),
) -> ParserNames:
    """Replace "auto" in `names` by the model's parsers; log the reasons.

    model: a folder, or a name on the hub, from which the small files are downloaded.
    chat_template: path of a Jinja file that the worker uses instead of the model's own.
    known: returns the names that the engine accepts for a flag; if one of a format's names is
        among them, it is used.
    Raises `NoParserError` unless exactly one fits, and `SetupError` for a model that cannot be
    read.
    """
    if AUTO not in (names.tool_call, names.reasoning):
        return names
    try:
        evidence = read_evidence(find_folder(model, revision), chat_template)
    except SetupError as error:
        raise SetupError(f"{AUTO} needs the model's files: {error}") from error
    tool_call, reasoning = names.tool_call, names.reasoning
    if tool_call == AUTO:
        detection = detect_tool_calls(evidence)
        tool_call = _take(TOOL_CALL_FLAG, model, detection, known(TOOL_CALL_FLAG))
    if reasoning == AUTO:
        detection = detect_reasoning(evidence, _model_tools(tool_call, evidence))
        reasoning = _take(REASONING_FLAG, model, detection, known(REASONING_FLAG))
    return ParserNames(tool_call, reasoning)


def _model_tools(tool_call: str | None, evidence: Evidence) -> Format | None:
    """Return the format of the model's calls, even if the worker does not parse them."""
    return (tool_format(tool_call) if tool_call else None) or detect_tool_calls(evidence).format


def _take(flag: str, model: str, detection: Detection, known: Collection[str]) -> str:
    if detection.format is None:
        raise NoParserError(flag, model, detection)
    name = name_for_engine(detection.format, known)
    logger.info("%s auto: %s, because it %s", flag, name, detection.reason)
    return name


def name_for_engine(format_: Format, known: Collection[str]) -> str:
    """Return a format's name in an engine that accepts the names `known`, else our own."""
    names = (format_.name, *format_.aliases)
    return next((name for name in names if name in known), format_.name)


def find_folder(model: str, revision: str | None = None) -> Path:
    """Return the folder with a model's small files, downloading them if it is not local.

    Raises `SetupError` if they are not found.
    """
    path = Path(model)
    if path.is_dir():
        return path
    if path.is_file():
        return path.parent  # of a weights file; its folder may have the others
    try:
        from huggingface_hub import snapshot_download
    except ImportError as error:
        raise SetupError(
            f"{model!r} is not a folder, and huggingface_hub, which downloads models, is missing; "
            "name a folder."
        ) from error
    try:
        return Path(snapshot_download(model, revision=revision, allow_patterns=list(SMALL_FILES)))
    except Exception as error:
        # The hub's client raises errors of several libraries.
        reason = str(error).partition("\n")[0]
        raise SetupError(
            f"{model!r} is not a folder, and cannot be downloaded from the hub ({reason}); name "
            "a folder, or a model that can be reached."
        ) from error
