"""The worker side: post-processing next to the engine."""
