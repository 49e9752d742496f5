"""The worker: post-processing beside the engine."""
