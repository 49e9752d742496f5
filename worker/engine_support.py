"""The versions and seams that an adapter needs, checked before an engine loads."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain

import msgspec

from ..base.errors import SetupError, exiting
from ..base.flags import read_variable
from ..base.json_types import JsonObject
from ..base.seams import Build, Role, Seams, check_seams, find_replaced, read_version, replace
from ..engines.dynamo import seams as dynamo
from ..parsers.api import Engine
from .flags import enabling_flags

ENDPOINT = "generate_endpoint"


class EngineSupport(msgspec.Struct, frozen=True):
    """The versions and seams that one engine's adapter relies on.

    name: also of its flag. distribution: the name of the engine's package.
    versions: Dynamo's version -> the supported one, both without their last part.
    seams: those in the engine, and in Dynamo's worker for it.
    metrics: Dynamo's function or class that gets the endpoint as `generate_endpoint`; a seam.
    """

    name: Engine
    distribution: str
    versions: Mapping[str, str]
    seams: Seams
    metrics: str

    @property
    def flag(self) -> str:
        """The flag that enables post-processing."""
        return enabling_flags(self.name)[0]

    def check_versions(self) -> None:
        """Raise `SetupError` unless the installed Dynamo and engine are supported together."""
        dynamo, engine = read_version("ai-dynamo"), read_version(self.distribution)
        if any(
            dynamo.startswith(f"{with_dynamo}.") and engine.startswith(f"{supported}.")
            for with_dynamo, supported in self.versions.items()
        ):
            return
        wanted = " or ".join(
            f"ai-dynamo {with_dynamo}.x with {self.distribution} {supported}.x"
            for with_dynamo, supported in self.versions.items()
        )
        raise SetupError(
            f"found ai-dynamo {dynamo} with {self.distribution} {engine}; this Backedge supports "
            f"{wanted}. Install these, or drop Backedge's flags."
        )

    def check_seams(self, *roles: Role) -> frozenset[str]:
        """Return the features that are off. Raises `SetupError` for a seam that does not hold."""
        tables = [table.get(role, ()) for role in roles for table in (dynamo.SEAMS, self.seams)]
        return check_seams(chain(*tables), ("ai-dynamo", self.distribution))

    def replace(self, name: str, build: Build) -> None:
        """Replace a function, which a seam declares, by what `build` returns for it."""
        replace(find_replaced(chain(*self.seams.values()), name), build)

    def sees_flags(self, arguments: Sequence[str]) -> bool:
        """Whether Backedge's flags can be added to the engine's and read when they are parsed.

        arguments: the command line; if it or the environment has the switch and the flags cannot be
        read, the process ends.
        """
        try:
            self.check_seams("flags")
        except SetupError:
            switch = enabling_flags(self.name)
            wanted = read_variable(switch, {"action": "store_true"}).get("default")
            if not wanted and set(switch).isdisjoint(arguments):
                return False
            with exiting():
                self.check_versions()
                raise
        return True


def pick_fields(record: object, names: Iterable[str]) -> JsonObject:
    """Return the attributes of these names."""
    return {name: getattr(record, name) for name in names}
