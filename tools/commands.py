"""Writes docs/commands.md, the help of all commands of `rowlock`: `make api`.

python -m tools.commands           # writes the page
python -m tools.commands --check   # exits 1 if the page is stale
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from rowlock.cli.commands import COMMANDS, summary_of
from rowlock.cli.main import application
from typer.testing import CliRunner

from tools import generated_page

PAGE = Path(__file__).resolve().parents[1] / "docs" / "commands.md"
_COLUMNS = "100"
_MADE = "<!-- Made from client/rowlock/cli by tools/commands.py: `make api`. -->"
_INTRODUCTION = """
`rowlock` reads and changes the tables of a running server. The [README](../README.md#five-minutes) has a tour,
[import_export.md](import_export.md) has files, and [operating.md](operating.md) has `rowlock-server`.
Commands that delete many rows ask first; `--yes` answers. `rowlock shell` keeps one connection for many commands, and
`rowlock completion --help` says how your shell completes them.

| command | what it does |
| --- | --- |
""".strip()


def page() -> str:
    """Returns the page."""
    table = "\n".join(f"| [`{name}`](#{name}) | {summary_of(function)} |" for name, function in COMMANDS.items())
    parts = [f"## {name}\n\n{_help(name)}" for name in COMMANDS]
    common = _help().partition("\n\nCommands:")[0] + "\n```"
    return "\n\n".join([f"# The command line\n\n{_MADE}", f"{_INTRODUCTION}\n{table}", common, *parts]) + "\n"


def _help(*words: str) -> str:
    """Returns what `rowlock WORDS --help` prints, as a block."""
    runner = CliRunner(env={"COLUMNS": _COLUMNS})
    result = runner.invoke(application, [*words, "--help"], prog_name="rowlock", catch_exceptions=False)
    return f"```text\n{result.output.strip()}\n```"


def main(given: Sequence[str]) -> int:
    """Runs the command. Returns the exit code."""
    description = "Writes docs/commands.md."
    return generated_page.run(given, PAGE, page(), program="python -m tools.commands", description=description)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
