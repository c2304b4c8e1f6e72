"""What a command says: results on standard output as text or JSON, everything else on standard error.

With --json each result is one JSON object on a line of its own. Without it, people at a terminal get tables, and
pipes get tab-separated lines without a heading; keys and values are escaped, so neither tab nor line break is in them.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from itertools import islice
from typing import TextIO

from rowlock._codec.escapes import escaped

# One result; values that JSON can hold.
Record = Mapping[str, object]
# Results are shown in blocks of so many lines, because a table needs to know its widths.
_LINES_PER_TABLE = 200


@dataclass(frozen=True, slots=True)
class ShownRow:
    """A row as it is shown: cells are (column, timestamp, value), in order."""

    row: bytes
    cells: Sequence[tuple[bytes, int | None, bytes]]


class OutputError(Exception):
    """Standard output does not take the results; what waits for it was dropped."""


def drop_unwritten(stream: TextIO) -> None:
    """What waits to be written, and all that follows, goes nowhere.

    Python flushes the standard streams once more at its end, and would complain about the same fault.
    """
    try:
        descriptor = stream.fileno()
    except OSError:
        return
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, descriptor)
    os.close(nowhere)


@contextmanager
def writing_to(stdout: TextIO) -> Iterator[None]:
    """Turns the refusal of standard output into OutputError; that its reader went away stays BrokenPipeError."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        drop_unwritten(stdout)
        raise OutputError(
            f"standard output can't be written: {error.strerror}; results are missing from it, write them elsewhere"
        ) from error


class Output:
    """Where one command writes. Used by one thread."""

    def __init__(self, stdout: TextIO, stderr: TextIO, *, json_lines: bool) -> None:
        self._stdout = stdout
        self._stderr = stderr
        self._json_lines = json_lines

    def record(self, record: Record, text: str) -> None:
        """One result; `text` says it to people, and nothing when empty."""
        if self._json_lines:
            self._write_json(record)
        elif text:
            with writing_to(self._stdout):
                self._stdout.write(text + "\n")

    def listing(self, heading: Sequence[str], lines: Iterable[tuple[Record, Sequence[str]]]) -> int:
        """Results of one shape, each with its words under `heading`; returns how many. Bounded memory."""
        count = 0
        remaining = iter(lines)
        while block := list(islice(remaining, _LINES_PER_TABLE)):
            count += len(block)
            if self._json_lines:
                for record, _ in block:
                    self._write_json(record)
            else:
                self._write_lines(heading, [words for _, words in block])
        return count

    def settings(self, groups: Iterable[tuple[str, Mapping[str, str]]]) -> None:
        """For people: names and their values under each group's title, one a line. At a pipe: TITLE NAME, tab, value.

        Without --json only. A title may be empty.
        """
        is_terminal = self._stdout.isatty()
        with writing_to(self._stdout):
            for title, values in groups:
                if not is_terminal:
                    self._stdout.writelines(
                        f"{title} {name}".lstrip() + f"\t{value}\n" for name, value in values.items()
                    )
                    continue
                width = max(map(len, values))
                indent = "  " if title else ""
                self._stdout.write(f"\n{title}\n" if title else "")
                self._stdout.writelines(
                    f"{indent}{name:{width}}  {value}\n" if value else f"{indent}{name}\n"
                    for name, value in values.items()
                )

    def rows(self, rows: Iterable[ShownRow]) -> None:
        """Rows with their cells. As JSON one object a row, else one line a cell."""
        if self._json_lines:
            for row in rows:
                self._write_json(row_record(row))
            return
        self.listing(("row", "column", "timestamp", "value"), (({}, words) for row in rows for words in _words(row)))

    def note(self, text: str) -> None:
        """What is worth knowing but no result."""
        self.flush()
        try:
            self._stderr.write(text + "\n")
            self._stderr.flush()
        except OSError:
            # Nobody can be told; the exit code still says how it ended.
            drop_unwritten(self._stderr)

    def error(self, message: str, *, kind: str) -> None:
        """One line that says what failed; `kind` is the condition's name."""
        line = " ".join(message.split())
        self.note(json.dumps({"error": kind, "message": line}) if self._json_lines else f"rowlock: {line}")

    def progress(self, what: str, total: int | None, unit: str) -> AbstractContextManager[Progress]:
        """A progress bar on standard error, if somebody watches it."""
        if not self._stderr.isatty():
            return nullcontext(Progress())
        from rowlock.cli.progress import ProgressBar

        return ProgressBar(self._stderr, what, total, unit)

    def flush(self) -> None:
        with writing_to(self._stdout):
            self._stdout.flush()

    def _write_json(self, record: Record) -> None:
        with writing_to(self._stdout):
            self._stdout.write(json.dumps(record, ensure_ascii=False) + "\n")

    def _write_lines(self, heading: Sequence[str], lines: Sequence[Sequence[str]]) -> None:
        with writing_to(self._stdout):
            self._write_block(heading, lines)

    def _write_block(self, heading: Sequence[str], lines: Sequence[Sequence[str]]) -> None:
        if not self._stdout.isatty():
            self._stdout.writelines("\t".join(words) + "\n" for words in lines)
            return
        from rich import box
        from rich.console import Console
        from rich.table import Column, Table
        from rich.text import Text

        # What is too wide goes on in the next line: a value or a name that is cut off is of no use.
        table = Table(*(Column(name, overflow="fold") for name in heading), box=box.SIMPLE_HEAD)
        for words in lines:
            table.add_row(*map(Text, words))
        Console(file=self._stdout).print(table)


class Progress:
    """How far a long command has come. This one tells nobody."""

    def advance(self, count: int) -> None:
        """So much more is done."""


def row_record(row: ShownRow) -> Record:
    """{"row": ..., "cells": [{"column": ..., "timestamp": ..., "value": ...}, ...]}; keys and values escaped."""
    return {
        "row": escaped(row.row),
        "cells": [
            {"column": escaped(column), "timestamp": timestamp, "value": escaped(value)}
            for column, timestamp, value in row.cells
        ],
    }


def _words(row: ShownRow) -> Iterable[Sequence[str]]:
    for column, timestamp, value in row.cells:
        yield escaped(row.row), escaped(column), "" if timestamp is None else str(timestamp), escaped(value)
