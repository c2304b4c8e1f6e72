"""`rowlock-server remove-set-aside DIR [--yes]`: removes the files that a start has set aside in a server's folder.

The server must be stopped. The command lists the files and asks for a confirmation; `--yes` gives it.

Exit code 0: removed, or there was nothing. 1: the answer was no, and nothing was removed. 2: the files could not be
removed (folder in use, not a server's folder, no answer).
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
from rowlock_regionserver.log_lines import reason_of

REMOVED, DECLINED, NOT_REMOVED = 0, 1, 2


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
        description="Removes the files that a start has set aside in a stopped server's folder, after a confirmation.",
        epilog="Exit codes: 0 removed, 1 the answer was no, 2 the files could not be removed.",
    )
    parser.add_argument("folder", metavar="DIR", type=Path, help="the data folder (--data of the server)")
    parser.add_argument("--yes", action="store_true", help="remove them without a confirmation")
    options = parser.parse_args(arguments)
    try:
        with held(options.folder, Files()):
            return _remove(options.folder, is_confirmed=options.yes, stdin=stdin, stdout=stdout)
    except (DataFolderError, OSError, EOFError) as error:
        stderr.write(f"rowlock-server remove-set-aside: {reason_of(error)}\n")
        return NOT_REMOVED


def _remove(folder: Path, *, is_confirmed: bool, stdin: TextIO, stdout: TextIO) -> int:
    files = Files()
    asides = list_set_aside(folder, files)
    if not asides:
        stdout.write(f"nothing is set aside in {folder}\n")
        return REMOVED
    for aside in asides:
        stdout.write(f"{aside.path} ({aside.note})\n")
    if not is_confirmed:
        stdout.write("This can't be undone. Remove all of it? [y/N] ")
        stdout.flush()
        answer = stdin.readline()
        if not answer:
            raise EOFError("no answer on standard input; use --yes to remove the files without a confirmation")
        if answer.strip().lower() not in ("y", "yes"):
            stdout.write("nothing was removed\n")
            return DECLINED
    for aside in remove_set_aside(folder, files):
        stdout.write(f"removed: {aside.path}\n")
    return REMOVED
