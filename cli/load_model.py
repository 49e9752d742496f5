"""Loads the tokenizer and parsers of a recorded model from this machine."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import NamedTuple, get_args

from ..base.errors import SetupError
from ..parsers.api import Engine, native_parsers
from ..parsers.base import ParserNames
from ..parsers.parser_lookup import Kind, linear_parsers, uses_native
from ..parsers.passthrough import PassthroughParsers
from ..recording.recording import RecordedModel
from ..recording.rerun import Parts
from ..tokenization.detokenizer import DetokenizerFactory, detokenizers, read_vocabulary
from ..tokenization.model_files import has_mistral_tokenizer, load_tokenizer_json

ENGINES: tuple[Engine, ...] = get_args(Engine)


def read_tokenizer(path: str, *, asks_hub: bool) -> object:
    """Load the tokenizer of a model.

    path: of its folder, or its name on a hub, if transformers finds it there or has stored it here.
    asks_hub: whether that may be asked.
    Raises `SetupError` if no tokenizer can be read there.
    """
    folder = Path(path)
    if (folder / "tokenizer.json").is_file():
        return load_tokenizer_json(folder)
    if has_mistral_tokenizer(folder):
        if importlib.util.find_spec("mistral_common") is None:
            raise SetupError(
                f"{path}: its tokenizer needs pip install '.[mistral]' in a checkout of Backedge."
            )
        from ..tokenization.mistral import MistralTokenizer

        return MistralTokenizer(path)
    files = [*folder.glob("*token*"), *folder.glob("vocab*")]
    if folder.is_absolute() and not files:  # transformers would take seconds to fail
        raise SetupError(
            f"{path} is not a folder with a tokenizer; name the model's folder with --model."
        )
    return read_engine_tokenizer(path, asks_hub=asks_hub)


def read_engine_tokenizer(path: str, *, asks_hub: bool) -> object:
    """Load a model's tokenizer as engines do, for their parsers. Raises as `read_tokenizer`."""
    if importlib.util.find_spec("transformers") is None:
        raise SetupError(
            f"{path} has no tokenizer.json, and other tokenizers need transformers; "
            "name the model's folder with --model."
        )
    from transformers import AutoTokenizer

    # A recording may be foreign, so it must not make us run code.
    try:
        tokenizer: object = AutoTokenizer.from_pretrained(
            path, trust_remote_code=False, local_files_only=not asks_hub
        )
    except Exception as error:
        # A tokenizer's files can make transformers raise anything.
        reason = " ".join(str(error).split())[:300]
        raise SetupError(
            f"{path} has no tokenizer that can be read here ({reason}); name the model's folder "
            "with --model."
        ) from error
    return tokenizer


class ParserChoice(NamedTuple):
    """The parsers to use; None: as recorded. engine: whose native ones."""

    tool_call: str | None = None
    reasoning: str | None = None
    kind: Kind | None = None
    engine: str | None = None

    def names(self, model: RecordedModel) -> ParserNames:
        """Return the names for a recorded model; an empty name means no parser."""
        recorded = model.parsers
        tool_call = recorded.tool_call if self.tool_call is None else self.tool_call
        reasoning = recorded.reasoning if self.reasoning is None else self.reasoning
        return ParserNames(tool_call or None, reasoning or None)


class LoadedModel:
    """The tokenizer of a recorded model.

    path: of its folder, or its name on a hub; None: as recorded, and then no hub is asked, since a
        stranger may have written the recording.
    Raises `SetupError` if no tokenizer can be read there.
    """

    def __init__(self, recorded: RecordedModel, path: str | None) -> None:
        self.recorded = recorded
        self.path = path or recorded.path
        self._asks_hub = path is not None
        self.tokenizer = read_tokenizer(self.path, asks_hub=self._asks_hub)
        self.detokenizers: DetokenizerFactory = detokenizers(self.tokenizer)

    def build(self, choice: ParserChoice) -> Parts:
        """Build the parsers. Raises `SetupError` for those that are not available here.

        Native parsers are those of the chosen engine; if it is unknown, of the first one installed.
        """
        names = choice.names(self.recorded)
        if names == ParserNames():
            return Parts(self.detokenizers, PassthroughParsers(), "none")
        if not uses_native(choice.kind or self.recorded.kind, names):
            parsers = linear_parsers(names, read_vocabulary(self.tokenizer))
            return Parts(self.detokenizers, parsers, "linear")
        engine = self.recorded.engine if choice.engine is None else choice.engine
        known = next((name for name in ENGINES if name == engine), None)
        tokenizer = read_engine_tokenizer(self.path, asks_hub=self._asks_hub)
        native = native_parsers(known, tokenizer, names)
        return Parts(self.detokenizers, native, "native")
