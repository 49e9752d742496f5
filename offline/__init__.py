"""Generation without a server: batches of conversations, with the core that servers use.

with GenerationEngine(ModelLoadConfig(model, backend="hf")) as engine:
    results = engine.generate_text_batch(requests, GenerationOptions(stop=["END"]))
"""

from .contracts import (
    EmbeddingRequest,
    GenerationOptions,
    ModelLoadConfig,
    TextGenerationRequest,
    VlmGenerationRequest,
    VlmPreprocessOptions,
)
from .engine import GenerationEngine
from .plugins import JsonStop, NoDuplicates, Plugin
from .results import GeneratedChoice, GenerationResult, ParsedMessage, RowError, ToolCall

__all__ = [
    "EmbeddingRequest",
    "GeneratedChoice",
    "GenerationEngine",
    "GenerationOptions",
    "GenerationResult",
    "JsonStop",
    "ModelLoadConfig",
    "NoDuplicates",
    "ParsedMessage",
    "Plugin",
    "RowError",
    "TextGenerationRequest",
    "ToolCall",
    "VlmGenerationRequest",
    "VlmPreprocessOptions",
]
