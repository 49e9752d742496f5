"""A tool parser plugin, as a user writes one, that raises once the model has written "Paris"."""

from vllm.entrypoints.generate.base.protocol import DeltaMessage
from vllm.tool_parsers import ToolParser, ToolParserManager


@ToolParserManager.register_module("explosive")
class ExplosiveToolParser(ToolParser):
    def extract_tool_calls_streaming(
        self, previous_text, current_text, delta_text, *args, **kwargs
    ):
        if "Paris" in current_text:
            raise RuntimeError("boom")
        return DeltaMessage(content=delta_text) if delta_text else None
