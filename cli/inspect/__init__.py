"""Shows a recording: its tokens, the parser's states, the deltas as they were sent."""
