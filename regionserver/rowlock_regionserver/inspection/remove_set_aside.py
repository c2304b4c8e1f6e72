"""`rowlock-server remove-set-aside DIR [--yes]`: removes for good what a start has set aside in a server's folder.

The server must be stopped. All of it is listed, and then a question asked; `--yes` answers it.

Exit code 0: removed, or there was nothing. 1: the answer was no, and nothing was removed. 2: it could not be removed
(in use, not a server's folder, nobody there to be asked).
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TextIO

from rowlock_regionserver.errors import DataFolderError
from rowlock_regionserver.files import Files
from rowlock_regionserver.host.set_aside import list_set_aside, remove_set_aside
from rowlock_regionserver.inspection.folder import held

REMOVED, NOT_WANTED, NOT_REMOVED = 0, 1, 2


def main(
    arguments: Sequence[str],
    stdin: TextIO | None = None,
    stdout: TextIO | None = None,
    stderr: TextIO | None = None,
) -> int:
    """Runs the command; see the module."""
    stdin, stdout, stderr = stdin or sys.stdin, stdout or sys.stdout, stderr or sys.stderr
    parser = argparse.ArgumentParser(
        prog="rowlock-server remove-set-aside",
        description="Removes for good what a start has set aside in a stopped server's folder, after a question.",
        epilog="Exit codes: 0 removed, 1 the answer was no, 2 it could not be removed.",
    )
    parser.add_argument("folder", metavar="DIR", type=Path, help="what the server was given as --data")
    parser.add_argument("--yes", action="store_true", help="remove it without asking")
    asked = parser.parse_args(arguments)
    try:
        with held(asked.folder, Files()):
            return _remove(asked.folder, is_sure=asked.yes, stdin=stdin, stdout=stdout)
    except (DataFolderError, OSError, EOFError) as error:
        stderr.write(f"rowlock-server remove-set-aside: {error}\n")
        return NOT_REMOVED


def _remove(folder: Path, *, is_sure: bool, stdin: TextIO, stdout: TextIO) -> int:
    files = Files()
    asides = list_set_aside(folder, files)
    if not asides:
        stdout.write(f"nothing is set aside in {folder}\n")
        return REMOVED
    for aside in asides:
        stdout.write(f"{aside.path} ({aside.note})\n")
    if not is_sure:
        stdout.write("Nothing of this can be brought back. Remove it for good? [y/N] ")
        stdout.flush()
        answer = stdin.readline()
        if not answer:
            raise EOFError("nobody is there to be asked; say --yes to remove what is set aside without a question")
        if answer.strip().lower() not in ("y", "yes"):
            stdout.write("nothing was removed\n")
            return NOT_WANTED
    for aside in remove_set_aside(folder, files):
        stdout.write(f"removed: {aside.path}\n")
    return REMOVED
