"""What an adapter relies on in Dynamo and in its engine, how that is checked and patched.

Both change without notice; a worker that starts on a version nobody has tried would fail
in the middle of a request instead.
"""

from __future__ import annotations

import functools
import importlib
import importlib.metadata
import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import ParamSpec, TypeVar

import msgspec

from ..base.errors import BackedgeError, SetupError
from ..base.json_types import JsonObject
from .flags import EngineName, enabling_flags

P = ParamSpec("P")
T = TypeVar("T")

ENDPOINT = "generate_endpoint"


class EngineSupport(msgspec.Struct, frozen=True):
    """What one engine's adapter relies on.

    name: also of its flag. distribution: under which the engine is installed.
    versions: the supported one by that of Dynamo, both without their last part.
    patch_points: module, attribute, and the first parameters that the adapter uses.
    metrics: module and name of Dynamo's function or class that gets the endpoint as
        `generate_endpoint`.
    """

    name: EngineName
    distribution: str
    versions: Mapping[str, str]
    patch_points: tuple[tuple[str, str, tuple[str, ...]], ...]
    metrics: tuple[str, str]

    @property
    def flag(self) -> str:
        """The flag that switches post-processing on."""
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

    def check_patch_points(self) -> None:
        """Raise `SetupError` unless every patch point has the parameters that are used."""
        for module_name, path, parameters in self.patch_points:
            target = find_attribute(module_name, path)
            if target is None or (parameters and not has_first_parameters(target, parameters)):
                raise self._unexpected(module_name, path)
        target = find_attribute(*self.metrics)
        if not callable(target) or ENDPOINT not in inspect.signature(target).parameters:
            raise self._unexpected(*self.metrics)

    def _unexpected(self, module_name: str, path: str) -> SetupError:
        found = read_version("ai-dynamo")
        supported = " or ".join(f"{version}.x" for version in self.versions)
        return SetupError(
            f"{module_name}.{path} of ai-dynamo {found} is not what Backedge expects; "
            f"install ai-dynamo {supported} as published, or drop Backedge's flags."
        )

    def exit_on_setup_error(self, check: Callable[P, T]) -> Callable[P, T]:
        """Return `check`, ending the process with the message alone if it refuses."""

        @functools.wraps(check)
        def checked(*args: P.args, **kwargs: P.kwargs) -> T:
            try:
                return check(*args, **kwargs)
            except BackedgeError as error:
                raise SystemExit(f"Backedge: {error}") from error

        return checked


def find_attribute(module_name: str, path: str) -> object:
    """Return what `path` names in a module, None if there is no such thing."""
    target: object = importlib.import_module(module_name)
    for name in path.split("."):
        target = getattr(target, name, None)
    return target


def read_version(package: str) -> str:
    """Return the installed version of a package, or "none"."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "none"


def has_first_parameters(target: object, names: tuple[str, ...]) -> bool:
    """Whether `target` is a function or class whose first parameters have these names."""
    if not callable(target):
        return False
    return tuple(inspect.signature(target).parameters)[: len(names)] == names


def pick_fields(record: object, names: Iterable[str]) -> JsonObject:
    """Return the attributes of these names."""
    return {name: getattr(record, name) for name in names}


def patch(module: str, path: str, replace: Callable[[Callable[..., T]], Callable[..., T]]) -> None:
    """Replace the function that `path` names in a module by what `replace` makes of it."""
    *parents, name = path.split(".")
    owner = functools.reduce(getattr, parents, importlib.import_module(module))
    setattr(owner, name, replace(getattr(owner, name)))
