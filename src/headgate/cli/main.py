"""The entry point. `--version` is answered before anything is imported."""

from __future__ import annotations

import sys

from headgate import __version__


def main(words: list[str] | None = None) -> int:
    """Run the command with these arguments (default: the command line) and return its exit code."""
    words = sys.argv[1:] if words is None else words
    if words[:1] == ["--version"]:
        sys.stdout.write(f"headgate {__version__}\n")
        return 0
    from headgate.cli.tree import run

    return run(words)
