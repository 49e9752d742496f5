"""A request's context under an id that no other request has.

A client chooses its request's id (`x-dynamo-request-id`). An engine that ends requests by that id
would end those of other clients with it.
"""

from __future__ import annotations

import uuid

from ..engines.dynamo.types import Context


class OwnContext:
    """Dynamo's context with an id of its own; everything else is the original's."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._id = f"{context.id()}-{uuid.uuid4().hex[:8]}"

    def __getattr__(self, name: str) -> object:
        value: object = getattr(self._context, name)
        return value

    def id(self) -> str:
        """Return the id for the engine."""
        return self._id

    def stop_generating(self) -> None:
        """Tell the worker to stop generating."""
        self._context.stop_generating()

    def is_stopped(self) -> bool:
        """Whether generation was stopped."""
        return self._context.is_stopped()
