"""The workers' chunks, read and written for the client."""
