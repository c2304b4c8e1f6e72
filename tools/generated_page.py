"""The command of a tool that generates a page of docs/."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path


def run(given: Sequence[str], page: Path, fresh: str, *, program: str, description: str) -> int:
    """Runs the command: writes the page, or with --check compares it. Returns the exit code."""
    parser = argparse.ArgumentParser(prog=program, description=description)
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 if the page is stale")
    if not parser.parse_args(given).check:
        page.write_text(fresh)
        return 0
    if page.exists() and page.read_text() == fresh:
        return 0
    print(f"stale: docs/{page.name}; run 'make api'", file=sys.stderr)
    return 1
