"""The interface of plugins, and its checks.

    class Shout(Plugin):
        name = "shout"

        def clean(self, text: str) -> str:
            return text.upper()

    GenerationEngine(config, plugins=[Shout()])

A hook that a plugin does not override costs nothing. Overridden hooks require capabilities of the
back end, in addition to those in `requires`.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, Protocol

from ..completion import TextWatcher
from ..contracts import BACKENDS, PluginError, RequestKind

# The hooks, with the capability that a back end needs; None: any back end.
HOOKS = {
    "watch": None,
    "logits_processor": "logits",
    "stopping_criterion": "stopping",
    "guard": None,
    "clean": None,
}
KINDS: tuple[RequestKind, ...] = ("text", "vlm")


class TokenGuard(Protocol):
    """Reads the tokens of one answer."""

    def feed(self, token_ids: Sequence[int]) -> Collection[int]:
        """Process new tokens; return those that should not be the next one."""


class Plugin:
    """Base of plugins; its hooks do nothing.

    name: shown in errors, and as the stop_reason of answers that it ends.
    backends: those that it supports. requires: additional capabilities of the back end.
    requests: kinds of requests that it supports.
    """

    name: str = ""
    backends: Collection[str] = BACKENDS
    requires: Collection[str] = ()
    requests: Collection[str] = KINDS

    def watch(self) -> TextWatcher | None:
        """Return a reader for one new answer, which may end it; None for no reader."""
        return None

    def logits_processor(self, backend: str) -> Any:
        """Return an object that changes the logits, in the back end's own form.

        "hf": a `transformers.LogitsProcessor` for the batch; "vllm": a class for vLLM's
        `logits_processors`, which it needs when it loads.
        """
        return None

    def stopping_criterion(self, backend: str) -> Any:
        """Return an object that ends answers: for "hf", a `transformers.StoppingCriteria`."""
        return None

    def guard(self, tokenizer: object) -> TokenGuard | None:
        """Return a reader for one new answer that avoids tokens; None for no reader.

        Only "hf" has one: the plugin must do with less on other back ends, or refuse them.
        tokenizer: the model's. A grammar of the row takes precedence.
        """
        return None

    def clean(self, text: str) -> str:
        """Return the clean text of one answer, changed."""
        return text

    @property
    def hooks(self) -> list[str]:
        """The hooks that the plugin overrides."""
        return [name for name in HOOKS if getattr(type(self), name) is not getattr(Plugin, name)]

    @property
    def needs(self) -> list[str]:
        """The capabilities that the back end must have."""
        of_hooks = [HOOKS[name] for name in self.hooks]
        return list(dict.fromkeys([*(need for need in of_hooks if need), *self.requires]))


def check_declaration(plugin: object, capabilities: Collection[str]) -> Plugin:
    """Return the plugin if its declaration is valid. Raises `PluginError`.

    capabilities: all existing ones.
    """
    if not isinstance(plugin, Plugin):
        raise PluginError(
            f"{plugin!r} is not a plugin; derive it from backedge.offline.plugins.Plugin and give "
            "an instance, not the class."
        )
    name = plugin.name
    if not isinstance(name, str) or not name:
        raise PluginError(f"{type(plugin).__name__} has no name; set its attribute `name`.")
    for attribute, known in (
        ("backends", BACKENDS),
        ("requires", capabilities),
        ("requests", KINDS),
    ):
        given = getattr(plugin, attribute)
        wrong = [given] if isinstance(given, str) else [item for item in given if item not in known]
        if wrong:
            raise PluginError(
                f"plugin {name!r} declares {attribute} {wrong[0]!r}; it must be a "
                f"collection of {', '.join(known)}."
            )
    return plugin


def check_backend(plugins: Sequence[Plugin], backend: str) -> None:
    """Raise `PluginError` for a plugin that does not support the back end or is a duplicate."""
    names = [plugin.name for plugin in plugins]
    for plugin in plugins:
        name = plugin.name
        if names.count(name) > 1:
            raise PluginError(f"two plugins are named {name!r}; pass each once.")
        if backend not in plugin.backends:
            raise PluginError(
                f"plugin {name!r} works with the back ends {_list(plugin.backends)}, not with "
                f"{backend!r}; change the back end or leave the plugin out."
            )


def check_batch(plugins: Sequence[Plugin], *, kind: RequestKind, parses: bool) -> None:
    """Raise `PluginError` for a plugin that does not support this batch.

    parses: whether results have parsed messages.
    """
    for plugin in plugins:
        name = plugin.name
        if kind not in plugin.requests:
            raise PluginError(
                f"plugin {name!r} works with {_list(plugin.requests)} requests, not with {kind!r}; "
                "leave it out of this batch."
            )
        if parses and "watch" in plugin.hooks:
            raise PluginError(
                f"plugin {name!r} ends answers by their text, which parsed messages do not allow; "
                "leave it out, or set message=False."
            )


def _list(names: Collection[str]) -> str:
    return ", ".join(repr(name) for name in sorted(names))
