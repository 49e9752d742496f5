"""One module per claim. Each prints a table, or JSON with --json."""
