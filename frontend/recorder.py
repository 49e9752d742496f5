"""The recorders of a frontend's models, and their common writer."""

from __future__ import annotations

import importlib.metadata

from ..recording.flags import RecordSettings
from ..recording.recorder import Recorder
from ..recording.recording import RecordedModel
from ..recording.writer import RecordingWriter
from .chat_model import ChatModel
from .model_builder import ChatModelBuilder


class FrontendRecording:
    """Records the requests of all models, according to the flags."""

    def __init__(self, settings: RecordSettings) -> None:
        self.writer = RecordingWriter(settings, "frontend")
        self._settings = settings

    def record(self, model: ChatModel, builder: ChatModelBuilder) -> None:
        """Record the requests of `model`. builder: of the model."""
        card = builder.worker_card
        recorded = RecordedModel(
            path=model.path,
            engine="" if card is None else card.engine,
            engine_version="" if card is None else card.engine_version,
            backedge_version=importlib.metadata.version("backedge"),
            parsers=builder.configured.names,
            kind=getattr(builder.flags, "postprocess_parsers", "auto"),
        )
        model.recorder = Recorder(
            self._settings, self.writer, "frontend", recorded, model.make_redactor
        )
