"""A plugin that does not fit is refused before any work."""

import pytest
from backedge.offline import GenerationOptions, Plugin
from backedge.offline.contracts import CapabilityError, PluginError

from tests.offline.batches import ask, replay_engine


class Shout(Plugin):
    name = "shout"

    def clean(self, text: str) -> str:
        return text.upper()


class Stopper(Plugin):
    name = "stopper"

    def watch(self):
        return None


class Biased(Plugin):
    name = "biased"

    def logits_processor(self, backend):
        return None


class Failing(Plugin):
    name = "failing"

    def clean(self, text):
        raise ValueError("bad day")


class Wordless(Plugin):
    name = "wordless"

    def clean(self, text):
        return None


def declared(**fields):
    return type("Declared", (Shout,), fields)()


# plugins, error, part of the message
AT_REGISTRATION = [
    ([Shout], PluginError, "give an instance, not the class"),
    (["shout"], PluginError, "'shout' is not a plugin"),
    ([declared(name="")], PluginError, "Declared has no name"),
    ([declared(backends=["vlllm"])], PluginError, "backends 'vlllm'"),
    ([declared(backends="hf")], PluginError, "backends 'hf'; it must be a collection of"),
    ([declared(requires=["flying"])], PluginError, "requires 'flying'"),
    ([declared(requests=["audio"])], PluginError, "requests 'audio'"),
    ([Biased()], CapabilityError, "plugin 'biased' needs the capability 'logits'"),
    ([declared(requires=["vlm"])], CapabilityError, "needs the capability 'vlm'"),
    ([declared(backends=["vllm"])], PluginError, "with the back ends 'vllm', not with 'replay'"),
    ([Shout(), Shout()], PluginError, "two plugins are named 'shout'"),
]


@pytest.mark.parametrize(("plugins", "error", "part"), AT_REGISTRATION)
def test_a_bad_plugin_is_refused_at_registration(plugins, error, part):
    with pytest.raises(error, match=part):
        replay_engine(plugins)


# plugin, options, part of the message
BEFORE_THE_BATCH = [
    (declared(requests=["vlm"]), {}, "works with 'vlm' requests, not with 'text'"),
    (Stopper(), {"message": True}, "set message=False"),
    (Biased(), {}, "'logits'"),
    (declared(backends=["hf"]), {}, "not with 'replay'"),
]


@pytest.mark.parametrize(("plugin", "options", "part"), BEFORE_THE_BATCH)
def test_a_plugin_that_does_not_fit_the_batch(plugin, options, part):
    with replay_engine() as engine, pytest.raises((PluginError, CapabilityError), match=part):
        engine.generate_text_batch([ask("Say hello.")], GenerationOptions(**options), [plugin])


def test_text_is_cleaned_and_raw_text_is_not():
    with replay_engine([Shout()]) as engine:
        [result] = engine.generate_text_batch([ask("Say hello.")])
        [plain] = engine.generate_text_batch([ask("Say hello.")], plugins=[])
    assert result.text == plain.text.upper() != plain.text
    assert result.raw_text == plain.raw_text


class Watcher:
    name = "watching"

    def feed(self, text):
        if "w" in text:
            raise ValueError("bad day")


class Watching(Plugin):
    """Fails while it reads an answer."""

    name = "watching"

    def watch(self):
        return Watcher()


class Blind(Plugin):
    """Fails before it reads any."""

    name = "blind"

    def watch(self):
        raise ValueError("bad day")


@pytest.mark.parametrize("plugin", [Watching(), Blind()])
def test_a_plugin_that_fails_while_it_reads_costs_its_row(plugin):
    with replay_engine() as engine:
        first, second = engine.generate_text_batch(
            [ask("Say hello."), ask("Greet the world.")], plugins=[plugin]
        )
    assert first.error is not None
    assert first.error.kind == "plugin"
    assert "ValueError: bad day" in first.error.message
    assert (second.error is None) is (plugin.name == "watching")


@pytest.mark.parametrize(
    ("plugin", "part"),
    [(Failing(), "ValueError: bad day"), (Wordless(), "must return a string, not None")],
)
def test_a_plugin_that_fails_costs_its_row(plugin, part):
    with replay_engine([plugin]) as engine:
        [result] = engine.generate_text_batch([ask("Say hello.")])
    assert result.error is not None
    assert result.error.kind == "plugin"
    assert part in result.error.message


def test_hooks_that_are_not_overridden_cost_nothing():
    assert Shout().hooks == ["clean"]
    assert Shout().needs == []
    assert Biased().needs == ["logits"]
