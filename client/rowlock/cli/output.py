"""Output of commands: results on standard output as text or JSON, everything else on standard error.

With --json each result is one JSON object on a line of its own. Without it, a terminal gets tables, and a pipe gets
tab-separated lines without a heading. Keys and values are escaped, so they contain neither tabs nor line breaks.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from itertools import islice
from typing import TextIO

from rowlock_proto.standard_streams import drop_unwritten

# One result; values that JSON can hold.
Record = Mapping[str, object]
_JSON = json.JSONEncoder(ensure_ascii=False)
# Tables are printed in blocks of this many lines, because the column widths depend on the lines.
_LINES_PER_TABLE = 200


@dataclass(frozen=True, slots=True)
class ShownRow:
    """A row to print: cells are (column, timestamp, value), in order. All are text, with escapes."""

    row: str
    cells: Sequence[tuple[str, int | None, str]]


class OutputError(Exception):
    """Writing to standard output failed. Unwritten output was dropped."""


@contextmanager
def writing_to(stdout: TextIO) -> Iterator[None]:
    """Turns an OSError of standard output into OutputError, except BrokenPipeError."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        drop_unwritten(stdout)
        raise OutputError(
            f"can't write to standard output: {error.strerror}; its results are incomplete, write them elsewhere"
        ) from error


class Output:
    """The output of one command. Used by one thread."""

    def __init__(self, stdout: TextIO, stderr: TextIO, *, json_lines: bool, is_shell: bool = False) -> None:
        """is_shell: for a command of the interactive shell, in which 'rowlock scan' is 'scan'."""
        self._stdout = stdout
        self._stderr = stderr
        self._json_lines = json_lines
        self._is_shell = is_shell

    def record(self, record: Record, text: str) -> None:
        """Prints one result: the record with --json, else `text`, unless it is empty."""
        if self._json_lines:
            self._write_json(record)
        elif text:
            with writing_to(self._stdout):
                self._stdout.write(text + "\n")

    def listing(
        self,
        heading: Sequence[str],
        lines: Iterable[tuple[Record, Sequence[str]]],
        *,
        whole: Sequence[str] = (),
        right: Sequence[str] = (),
        continues: bool = False,
    ) -> int:
        """Prints results as a table, each with its fields under `heading`; returns how many. Memory is bounded.

        whole: headings of columns that are never broken, because people copy from them. right: of columns of numbers,
        whose fields end at the same place. continues: the lines follow
        those of the table before, so the heading is not repeated.
        """
        count = 0
        remaining = iter(lines)
        while block := list(islice(remaining, _LINES_PER_TABLE)):
            count += len(block)
            if self._json_lines:
                self._write_json(*(record for record, _ in block))
            else:
                self._write_lines(heading, [fields for _, fields in block], whole, right, continues=continues)
        return count

    def lines(self, heading: Sequence[str], lines: Iterable[Sequence[str]]) -> None:
        """Prints a table, as `listing` does, for output without --json."""
        remaining = iter(lines)
        while block := list(islice(remaining, _LINES_PER_TABLE)):
            self._write_lines(heading, block)

    def records(self, records: Iterable[Record]) -> None:
        """Prints results as JSON, for output with --json."""
        remaining = iter(records)
        while block := list(islice(remaining, _LINES_PER_TABLE)):
            self._write_json(*block)

    def refreshing(self) -> AbstractContextManager[Callable[[str], None]]:
        """Returns a context with a function that shows a text in place of the one before, on a terminal.

        The last one stays when the context ends.
        """
        from rowlock.cli.progress import refreshing_text

        return refreshing_text(self._stdout)

    @property
    def is_for_people(self) -> bool:
        """Whether results are shown on a terminal, and not as JSON."""
        return not self._json_lines and self._stdout.isatty()

    def settings(self, groups: Iterable[tuple[str, Mapping[str, str]]]) -> None:
        """Prints named values, one a line: under each group's title on a terminal, else as TITLE NAME, tab, value.

        For output without --json. A title may be empty.
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
        """Prints rows with their cells: with --json one object per row, else one line per cell."""
        if self._json_lines:
            for row in rows:
                self._write_json(row_record(row))
            return
        self.listing(("row", "column", "timestamp", "value"), (({}, fields) for row in rows for fields in _fields(row)))

    def note(self, text: str) -> None:
        """Prints a remark on standard error."""
        self.flush()
        shown = text.replace("'rowlock ", "'") if self._is_shell else text
        try:
            self._stderr.write(shown + "\n")
            self._stderr.flush()
        except OSError:
            # There is no place left to report to; the exit code remains.
            drop_unwritten(self._stderr)

    def error(self, message: str, *, kind: str) -> None:
        """Prints an error in one line; `kind` is the name of the error class."""
        line = " ".join(message.split())
        self.note(json.dumps({"error": kind, "message": line}) if self._json_lines else f"rowlock: {line}")

    def progress(self, title: str, total: int | None, unit: str) -> AbstractContextManager[Progress]:
        """Returns a progress bar on standard error if that is a terminal; else one that prints nothing."""
        if not self._stderr.isatty():
            return nullcontext(Progress())
        from rowlock.cli.progress import ProgressBar

        return ProgressBar(self._stderr, title, total, unit)

    def flush(self) -> None:
        with writing_to(self._stdout):
            self._stdout.flush()

    def _write_json(self, *records: Record) -> None:
        with writing_to(self._stdout):
            self._stdout.writelines(_JSON.encode(record) + "\n" for record in records)

    def _write_lines(
        self,
        heading: Sequence[str],
        lines: Sequence[Sequence[str]],
        whole: Sequence[str] = (),
        right: Sequence[str] = (),
        *,
        continues: bool = False,
    ) -> None:
        with writing_to(self._stdout):
            self._write_block(heading, lines, whole, right, continues=continues)

    def _write_block(
        self,
        heading: Sequence[str],
        lines: Sequence[Sequence[str]],
        whole: Sequence[str],
        right: Sequence[str],
        *,
        continues: bool,
    ) -> None:
        if not self._stdout.isatty():
            self._stdout.writelines("\t".join(fields) + "\n" for fields in lines)
            return
        from rich import box
        from rich.console import Console
        from rich.table import Column, Table
        from rich.text import Text

        # Wide values wrap: a truncated value or name is useless.
        columns = [
            Column(
                name,
                justify="right" if name in right else "left",
                overflow="fold",
                no_wrap=name in whole,
                min_width=max(len(fields[place]) for fields in lines) if name in whole else None,
            )
            for place, name in enumerate(heading)
        ]
        table = Table(*columns, box=None if continues else box.SIMPLE_HEAD, show_header=not continues)
        for fields in lines:
            table.add_row(*map(Text, fields))
        Console(file=self._stdout).print(table)


class Progress:
    """The progress of a long command. This class prints nothing."""

    reached = 0

    def to(self, count: int) -> None:
        """Sets how far a command has come that starts at 0."""
        self.advance(count - self.reached)
        self.reached = count

    def advance(self, count: int) -> None:
        """Adds `count` to the progress."""

    def reach(self, count: int, total: int | None, title: str) -> None:
        """Sets the progress, its total, None if it is not known, and the title."""


def row_record(row: ShownRow) -> Record:
    """Makes {"row": ..., "cells": [{"column": ..., "timestamp": ..., "value": ...}, ...]}."""
    return {
        "row": row.row,
        "cells": [{"column": column, "timestamp": timestamp, "value": value} for column, timestamp, value in row.cells],
    }


def _fields(row: ShownRow) -> Iterable[Sequence[str]]:
    for column, timestamp, value in row.cells:
        yield row.row, column, "" if timestamp is None else str(timestamp), value
