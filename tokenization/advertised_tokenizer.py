"""The tokenizer on Dynamo's model card, which frontends use for the model.

Your own worker sets it before it registers the model:

    config = ModelRuntimeConfig()
    set_tokenizer_config(config, "python", "my_package.tokenizers", "MyTokenizer")
    await register_model(..., runtime_config=config)
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Protocol

import msgspec

from ..base.errors import SetupError
from ..base.json_types import JsonObject
from .flags import BACKEND_FLAG, BACKENDS, TokenizerSelection

KEY = "backedge_tokenizer"
"""The name of the entry in the card's `runtime_data`."""


class RuntimeConfig(Protocol):
    """Dynamo's `ModelRuntimeConfig`, part of the model card."""

    def set_engine_specific(self, key: str, value: str) -> None:
        """Put a value, as JSON text, into `runtime_data`."""
        ...


class _Entry(msgspec.Struct, omit_defaults=True):
    backend: str
    module: str | None = None
    class_name: str | None = None


def set_tokenizer_config(
    runtime_config: RuntimeConfig,
    backend: str,
    module: str | None = None,
    class_name: str | None = None,
) -> None:
    """Put a tokenizer on the model card. Call this before registering the model.

    backend: one of `BACKENDS`. module, class_name: for "python"; a class of that module, which
        frontends import if they were started with `--allow-tokenizer-module`.
    Raises `SetupError` for values that no frontend could use.
    """
    entry = _Entry(backend, module, class_name)
    _check(entry)
    runtime_config.set_engine_specific(KEY, json.dumps(msgspec.to_builtins(entry)))


def read_tokenizer_config(runtime_config: JsonObject) -> TokenizerSelection:
    """Return the tokenizer on a model card; its back end is None if the card has none.

    runtime_config: the card's, as returned by `ModelDeploymentCard.runtime_config()`.
    Raises `SetupError` for an entry that this version does not support.
    """
    runtime_data = runtime_config.get("runtime_data")
    written = runtime_data.get(KEY) if isinstance(runtime_data, Mapping) else None
    if written is None:
        return TokenizerSelection()
    try:
        entry = msgspec.convert(written, _Entry)
    except msgspec.ValidationError as error:
        raise SetupError(f"the card's entry {KEY} is not a tokenizer: {error}.") from error
    return _check(entry)


def _check(entry: _Entry) -> TokenizerSelection:
    if entry.backend not in BACKENDS:
        raise SetupError(
            f"tokenizer back end {entry.backend!r} is unknown; the known ones are "
            f"{', '.join(BACKENDS)}. Choose one of them on the worker, or on the frontend with "
            f"{BACKEND_FLAG}."
        )
    selection = TokenizerSelection(entry.backend, entry.module, entry.class_name)
    selection.check("module", "class_name")
    return selection
