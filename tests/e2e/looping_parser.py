"""A tool parser plugin that loops forever once the model has written "Paris"."""

from vllm.entrypoints.generate.base.protocol import DeltaMessage
from vllm.tool_parsers import ToolParser, ToolParserManager


@ToolParserManager.register_module("looping")
class LoopingToolParser(ToolParser):
    def extract_tool_calls_streaming(
        self, previous_text, current_text, delta_text, *args, **kwargs
    ):
        while "Paris" in current_text:
            pass
        return DeltaMessage(content=delta_text) if delta_text else None
