"""The worker's half: post-processing beside the engine."""
