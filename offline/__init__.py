"""Generation without a server: batches of conversations, with the core that servers use.

with GenerationEngine(ModelLoadConfig(model, backend="hf")) as engine:
    results = engine.generate_text_batch(requests, GenerationOptions(stop=["END"]))
"""

from .contracts import (
    GeneratedChoice,
    GenerationOptions,
    GenerationResult,
    ModelLoadConfig,
    ParsedMessage,
    RowError,
    TextGenerationRequest,
    ToolCall,
    VlmGenerationRequest,
    VlmPreprocessOptions,
)
from .engine import GenerationEngine
from .plugins import JsonStop, NoDuplicates, Plugin

__all__ = [
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
