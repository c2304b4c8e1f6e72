"""The command import: rows or cells of a file into a table, or the tables of a folder, in bounded memory."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rowlock.cli.arguments import ArgumentError
from rowlock.cli.quantities import count_text
from rowlock.cli.session import Call
from rowlock.cli.shared_options import (
    CellsOption,
    FileArgument,
    FormatOption,
    MappingOption,
    OptionalTableArgument,
    SeparatorOption,
    integer_from,
)
from rowlock.cli.start import import_large
from rowlock.cli.transfer.formats import format_of

if TYPE_CHECKING:
    import pyarrow as pa

    from rowlock import BulkError, Mapping
    from rowlock.bulk_outcome import BulkResult
    from rowlock.cli.output import Progress
    from rowlock.cli.transfer.batches import Content, Read

_REPEAT = "repeat the import; it writes the same rows again"


def import_rows(
    call: Call,
    table: OptionalTableArgument = None,
    file: FileArgument = None,
    mapping: MappingOption = None,
    file_format: FormatOption = None,
    null: Annotated[
        list[str] | None,
        typer.Option(
            "--null",
            metavar="TEXT",
            show_default=False,
            help="CSV: text that means null, NA for example; may be repeated.",
        ),
    ] = None,
    separator: SeparatorOption = None,
    cells: CellsOption = False,
    skip_rows: Annotated[
        int | None,
        typer.Option(
            "--skip-rows",
            parser=integer_from(0),
            metavar="COUNT",
            show_default=False,
            help="Leave out the first rows of the file, which an interrupted import has written.",
        ),
    ] = None,
    ignore_others: Annotated[
        bool, typer.Option("--ignore-others", help="Ignore columns of the file that the mapping does not name.")
    ] = False,
    folder: Annotated[
        Path | None,
        typer.Option(
            "--all", metavar="FOLDER", show_default=False, help="Import the tables of 'rowlock export --all'."
        ),
    ] = None,
    existing: Annotated[
        bool, typer.Option("--existing", help="With --all: write into tables that exist, which stay as they are.")
    ] = False,
) -> None:
    r"""Imports the rows of a file, by a mapping.

    The format is CSV, JSON lines (.jsonl, .ndjson) or Parquet; the first two may be compressed (.gz). FILE may be -,
    with --format. The file may lack columns of the table's mapping, but not have others, which may be misspelled ones:
    --ignore-others leaves these out. With --mapping all of its columns must be in the file, and others are ignored; an
    object of JSON lines may lack columns, and not have others.

    In CSV the first line names the columns; an empty field writes no cell, "" writes an empty value. In JSON lines each
    line is an object {name: value}; null writes no cell. BINARY columns have \xNN escapes in both.

    Each batch of rows is atomic; if one fails, the earlier ones stay. A repeated import writes the same rows again. A
    row exists through its cells: a row with only a key is not in the table.

    --cells takes a file of 'rowlock export --cells' and needs no mapping. See docs/import_export.md.

    --json: {"table", "rows": rows read, "cells": cells written, "rows_without_cells": number}; with --all a line per
    table, {"table", "file", "cells"}
    """
    if folder is not None:
        if (
            table is not None
            or mapping is not None
            or file_format
            or null
            or separator
            or cells
            or skip_rows
            or ignore_others
        ):
            raise ArgumentError("--all takes a folder of 'rowlock export --all', and no other options but --existing")
        import_large("rowlock.cli.transfer.whole_store")
        from rowlock.cli.transfer.whole_store import import_all

        import_all(call, folder, existing=existing)
        return
    if table is None or file is None:
        raise ArgumentError("give a TABLE and a FILE, or --all FOLDER")
    if existing:
        raise ArgumentError("--existing needs --all")
    if cells and mapping is not None:
        raise ArgumentError("--cells excludes --mapping: cells are written as they are")
    kind = format_of(file, file_format, separator)
    if null and kind.kind != "csv":
        raise ArgumentError(f"--null is for csv, but the format is {kind.kind}")
    import_large("rowlock.cli.transfer.files")
    from rowlock.cli.transfer import files, sources
    from rowlock.cli.transfer.columns import CELL_COLUMNS, columns_of

    parsed = None if cells else mapping_for(call, table, mapping)
    columns = (
        CELL_COLUMNS if parsed is None else columns_of(parsed, is_partial=mapping is None, ignores_others=ignore_others)
    )
    # An empty file would not find out that there is no table.
    call.client.kept_mapping(table)
    call.session.interrupt_note = "nothing was written"
    with (
        sources.source_of(file, call.session.stdin, is_compressed=kind.is_compressed) as source,
        files.reader(source, kind, columns, null or ()) as content,
    ):
        rows = FileRows(content, source.name, parsed, skip_rows or 0)
        result = put_rows(call, table, rows, parsed)
    if rows.read_count < rows.skipped:
        raise ArgumentError(
            f"--skip-rows {rows.skipped} leaves out more than there is: {rows.name} has only "
            f"{count_text(rows.read_count, 'row')}; nothing was written"
        )
    if cells:
        text = count_text(result.cell_count, "cell")
    else:
        text = f"{count_text(rows.count, 'row')}, {count_text(result.cell_count, 'cell')}"
    if rows.without_cells:
        one = rows.without_cells == 1
        text += f"; {count_text(rows.without_cells, 'row')} {'has' if one else 'have'} no values except the key, so "
        text += f"{'it is' if one else 'they are'} not in the table"
    record = {
        "table": table,
        "rows": rows.count,
        "cells": result.cell_count,
        "rows_without_cells": rows.without_cells,
    }
    call.output.record(record, text)


def mapping_for(call: Call, table: str, given: str | None) -> Mapping:
    """Returns the mapping that is given, or that the table keeps. Raises ArgumentError if there is none."""
    from rowlock import Mapping
    from rowlock.mapping import is_none

    if given is not None and is_none(given):
        raise ArgumentError("rows of a file need a mapping; --cells takes cells as bytes, without one")
    if given is not None:
        return Mapping(given)
    kept = call.client.kept_mapping(table)
    if kept is None:
        raise ArgumentError(f"table {table} keeps no mapping: give --mapping, or --cells for cells")
    return kept


def put_rows(call: Call, table: str, rows: FileRows, mapping: Mapping | None, *, repeat: str = _REPEAT) -> BulkResult:
    """Writes rows, or cells if there is no mapping. An interrupt reports how far it came.

    repeat: what to advise after an error that left a part of the rows unwritten.
    """
    from rowlock import BulkError

    call.session.interrupt_note = ""
    with call.output.progress(f"importing {rows.name}", rows.total, rows.unit) as progress:
        rows.progress = progress
        try:
            if mapping is None:
                return call.client.table(table).put_arrow(rows, on_progress=rows.written_to)
            return call.client.table(table, mapping=mapping).put_arrow(rows, on_progress=rows.written_to)
        except KeyboardInterrupt:
            call.session.interrupt_note = rows.interrupt_note
            raise
        except BulkError as error:
            raise _with_advice(error, rows, repeat) from error


def _with_advice(error: BulkError, rows: FileRows, repeat: str) -> Exception:
    """Returns the error of an import that wrote a part of the rows, with advice to repeat it."""
    counted = f" (rows are counted after the first {rows.skipped} of the file)" if rows.skipped else ""
    cause = error.__cause__
    if isinstance(cause, ArgumentError):
        # The file is invalid; its line number says more than a row number.
        written = sum(map(len, error.applied))
        return ArgumentError(f"{cause}. {written} rows were written: correct the file and {repeat}")
    return type(error)(
        f"{error.message.rstrip('.')}{counted}. To write all rows, {repeat}{rows.shorter_repeat}",
        applied=error.applied,
        failed=error.failed,
        unknown=error.unknown,
        table=error.table,
    )


class FileRows:
    """Iterates over the rows of a file for put_arrow, counts them, and knows which of them are written."""

    progress: Progress

    def __init__(self, content: Content, name: str, mapping: Mapping | None, skipped: int = 0) -> None:
        """mapping: None for cells. skipped: how many rows at the beginning of the file are left out."""
        self.name = name
        self.total, self.unit = content.total, content.unit
        # Rows of the file, without those that are left out, and those of them with a key and no values.
        self.count = 0
        self.without_cells = 0
        self._reads = content.reads
        self._names = None if mapping is None else {column.name for column in mapping.values}
        self.skipped = skipped
        # Also those that are left out.
        self.read_count = 0
        # The first rows of the file that are certainly written or left out.
        self._written = skipped
        # Of batches that are not written yet: the number of rows up to their ends, and the positions there.
        self._unwritten: list[tuple[int, int]] = []

    @property
    def interrupt_note(self) -> str:
        """What to report after an interrupt."""
        return (
            f"the first {self._written} rows of {self.name} were written, and perhaps more. To go on, repeat the "
            f"import with --skip-rows {self._written}, or as it was: it writes the same rows again"
        )

    @property
    def shorter_repeat(self) -> str:
        """What to add to the advice to repeat the import; empty if none of its rows is certainly written."""
        return f"; --skip-rows {self._written} leaves out what was written" if self._written > self.skipped else ""

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        from rowlock.cli.transfer.batches import without_first

        read: Read
        for read in without_first(self._counted(), self.skipped):
            self.count += read.batch.num_rows
            self.without_cells += self._count_without_cells(read.batch)
            self._unwritten.append((self.count, read.position))
            yield read.batch
        if self._unwritten and self.total is not None:
            # What follows the last row is read too.
            self._unwritten[-1] = (self.count, self.total)

    def _counted(self) -> Iterator[Read]:
        for read in self._reads:
            self.read_count += read.batch.num_rows
            yield read

    def written_to(self, count: int) -> None:
        """Records that the first `count` rows are written, of those that are not left out."""
        self._written = self.skipped + count
        while self._unwritten and self._unwritten[0][0] <= count:
            self.progress.to(self._unwritten.pop(0)[1])

    def _count_without_cells(self, batch: pa.RecordBatch) -> int:
        import numpy as np

        from rowlock._codec.arrow_buffers import bools_of

        if self._names is None:
            return 0
        has_cell = np.zeros(batch.num_rows, np.bool_)
        for name in self._names.intersection(batch.schema.names):
            has_cell |= bools_of(batch.column(name).is_valid())
        return batch.num_rows - int(np.count_nonzero(has_cell))
