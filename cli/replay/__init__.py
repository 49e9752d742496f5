"""Post-processes recordings again, with other parsers or chunks, and compares."""
