"""Writes docs/settings.md, the list of the server's settings, from its configuration: `make api`.

    python -m tools.settings           # writes the page
    python -m tools.settings --check   # exits 1 if the page is stale

The words are those of `rowlock-server --config help`.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from rowlock_regionserver.config import Config
from rowlock_regionserver.settings import described_settings

from tools import generated_page

PAGE = Path(__file__).resolve().parents[1] / "docs" / "settings.md"
_MADE = "<!-- Made from regionserver/rowlock_regionserver/config.py by tools/settings.py: `make api`. -->"
_INTRODUCTION = """
All settings of `rowlock-server`, for `--config NAME=VALUE` or a TOML file
([how they are given](operating.md#settings)), and for a private server, `rowlock.open(folder, settings={...})`.
`memory` is the one to set first: it scales the bounds of its parts, so the defaults below are those of a machine
where it is 2 GiB.
`rowlock-server --config help` prints the defaults of your machine, and [memory.md](memory.md) explains the parts.
""".strip()


def page() -> str:
    """Returns the page."""
    rows = "\n".join(
        f"| `{name}` | {default} | {unit if unit != '-' else ''} | {what} |"
        for name, default, unit, what in described_settings(Config())
    )
    table = f"| setting | default | unit | what it is |\n| --- | ---: | --- | --- |\n{rows}"
    return f"# Settings\n\n{_MADE}\n\n{_INTRODUCTION}\n\n{table}\n"


def main(given: Sequence[str]) -> int:
    """Runs the command. Returns the exit code."""
    description = "Writes docs/settings.md."
    return generated_page.run(given, PAGE, page(), program="python -m tools.settings", description=description)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
