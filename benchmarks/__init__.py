"""One module for each measurement; it prints a table, or JSON with --json."""
