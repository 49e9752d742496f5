"""Model output to events: reasoning, content, tool calls. Pure: no I/O, no clock, no asyncio."""
