"""Puts `backedge.pth` where Python reads it at its start: beside the package."""

from __future__ import annotations

from setuptools.command.build_py import build_py

STARTUP_FILE = "frontend/backedge.pth"


class BuildWithStartupFile(build_py):
    """Builds the package and its file for the start of Python."""

    def run(self) -> None:
        """Build, and copy the file."""
        super().run()
        self.copy_file(STARTUP_FILE, self.build_lib)
