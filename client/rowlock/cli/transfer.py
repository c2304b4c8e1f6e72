"""The commands import and export: CSV and Parquet, by a mapping, in bounded memory."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rowlock._codec.escapes import typed
from rowlock.cli import arguments
from rowlock.cli.conditions import where as filter_of
from rowlock.cli.scans import note_if_resumed
from rowlock.cli.session import Call
from rowlock.cli.shared_options import (
    FormatOption,
    MappingOption,
    PrefixOption,
    SeparatorOption,
    StartOption,
    StopOption,
    TableArgument,
    WhereOption,
)
from rowlock.cli.start import import_large

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

    from rowlock import BulkError, Mapping
    from rowlock.cli import file_formats
    from rowlock.cli.output import Progress

FORMATS = ("csv", "parquet")


def import_rows(
    call: Call,
    table: TableArgument,
    file: Annotated[Path, typer.Argument(metavar="FILE", show_default=False)],
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
) -> None:
    r"""Imports the rows of a file, by a mapping.

    Columns of the file that the mapping does not name are ignored.

    In CSV the first line names the columns; an empty field writes no cell, "" writes an empty value; BINARY columns
    have \xNN escapes. Each batch of rows is atomic; if one fails, the earlier ones stay. A repeated import writes the
    same rows again. A row exists through its cells: a row with only a key is not in the table.

    --json: {"table", "rows": rows read, "cells": cells written, "rows_without_cells": number}
    """
    import_large("rowlock.cli.file_formats")
    from rowlock import BulkError
    from rowlock.cli import file_formats

    kind = _format(file, file_format)
    delimiter = _separator(kind, separator)
    parsed = _mapping(call, table, mapping)
    with (
        file_formats.reader(file, kind, parsed, null or (), delimiter, is_partial=mapping is None) as batches,
        call.output.progress(f"importing {file.name}", batches.total, batches.unit) as progress,
    ):
        rows = _Rows(batches, parsed, progress)
        try:
            result = call.client.table(table, mapping=parsed).put_arrow(rows)
        except BulkError as error:
            raise _with_advice(error) from error
    text = f"{rows.count} rows, {result.cell_count} cells"
    if rows.without_cells:
        text += f"; {rows.without_cells} rows have no values except the key, so they are not in the table"
    call.output.record(
        {
            "table": table,
            "rows": rows.count,
            "cells": result.cell_count,
            "rows_without_cells": rows.without_cells,
        },
        text,
    )


def export_rows(
    call: Call,
    table: TableArgument,
    file: Annotated[Path, typer.Argument(metavar="FILE", show_default=False)],
    mapping: MappingOption = None,
    file_format: FormatOption = None,
    start: StartOption = None,
    stop: StopOption = None,
    prefix: PrefixOption = None,
    where: WhereOption = None,
    mapped_only: Annotated[
        bool, typer.Option("--mapped-only", help="Omit rows without any of the mapping's columns.")
    ] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an existing file.")] = False,
    separator: SeparatorOption = None,
) -> None:
    """Exports rows to a file, by a mapping.

    The file appears when it is complete. If the server restarts meanwhile, the rows are not of one moment, and a
    warning on standard error says so. A missing cell is null, also in a row without any of the mapping's columns.

    --json: {"table", "file", "rows": number}
    """
    import_large("rowlock.cli.file_formats")
    from rowlock.cli import file_formats

    kind = _format(file, file_format)
    delimiter = _separator(kind, separator)
    if file.exists() and not file.is_file() and not file.is_dir():
        # The finished file would replace the device or pipe.
        raise arguments.ArgumentError(f"{file} is not a regular file; give a path of one")
    if file.exists() and not overwrite:
        raise arguments.ArgumentError(f"{file} exists; give --overwrite to replace it")
    if file.is_dir() or not file.parent.is_dir():
        problem = (
            "is a folder; give a file in it" if file.is_dir() else f"can't be created: there is no folder {file.parent}"
        )
        raise arguments.ArgumentError(f"{file} {problem}")
    parsed = _mapping(call, table, mapping)
    condition = filter_of(where)
    first, last, begins = arguments.row_range(start, stop, prefix)
    # A scan of columns omits the rows without any of them.
    chosen = (parsed.cell_columns or None) if mapped_only else None
    found = call.client.table(table).scan(first, last, begins, columns=chosen, where=condition)
    rows = 0
    partial = file.with_name(f".{file.name}.partial-{os.getpid()}")
    try:
        with (
            found,
            call.output.progress(f"exporting {table}", None, "rows") as progress,
            file_formats.writer(partial, kind, parsed, delimiter) as write,
        ):
            for batch in found.to_batches(parsed):
                write(batch)
                rows += batch.num_rows
                progress.advance(batch.num_rows)
        os.replace(partial, file)
    finally:
        partial.unlink(missing_ok=True)
    call.output.record({"table": table, "file": str(file), "rows": rows}, f"{rows} rows")
    note_if_resumed(call, found)


def _mapping(call: Call, table: str, given: str | None) -> Mapping:
    """Returns the mapping that is given, or that the table keeps. Raises ArgumentError if there is none."""
    from rowlock import Mapping

    if given is not None:
        return Mapping(given)
    kept = call.client.kept_mapping(table)
    if kept is None:
        raise arguments.ArgumentError(f"table {table} keeps no mapping: give --mapping")
    return kept


def _format(file: Path, given: str | None) -> str:
    found = (given or file.suffix.removeprefix(".")).lower()
    if found not in FORMATS:
        raise arguments.ArgumentError(
            f"the format of {file.name} is unknown: give --format csv or --format parquet"
            if given is None
            else f"--format must be csv or parquet, not {typed(given)}"
        )
    return found


def _separator(kind: str, given: str | None) -> str:
    """Returns the field separator. Raises ArgumentError for another character, and for a format without one."""
    from rowlock.cli.file_formats import SEPARATOR_DEFAULT, SEPARATORS

    if given is None:
        return SEPARATOR_DEFAULT
    if kind != "csv":
        raise arguments.ArgumentError(f"--separator is for csv, but the format is {kind}")
    found = "\t" if given == r"\t" else given
    if found not in SEPARATORS:
        raise arguments.ArgumentError(rf"--separator must be one of , ; | or \t, not {typed(given)}")
    return found


def _with_advice(error: BulkError) -> Exception:
    """Returns the error of an import that wrote a part of the rows, with advice to repeat it."""
    advice = "repeat the import; it writes the same rows again"
    cause = error.__cause__
    if isinstance(cause, arguments.ArgumentError):
        # The file is invalid; its line number says more than a row number.
        written = sum(map(len, error.applied))
        return arguments.ArgumentError(f"{cause}. {written} rows were written: correct the file and {advice}")
    return type(error)(
        f"{error.message.rstrip('.')}. To write all rows, {advice}",
        applied=error.applied,
        failed=error.failed,
        unknown=error.unknown,
        table=error.table,
    )


class _Rows:
    """Iterates over the rows of a file for put_arrow, and counts them."""

    def __init__(self, batches: file_formats.Batches, mapping: Mapping, progress: Progress) -> None:
        self.count = 0
        # Rows with a key and no values.
        self.without_cells = 0
        self._batches = batches
        self._names = {column.name for column in mapping.values}
        self._progress = progress

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        for batch in self._batches:
            self.count += batch.num_rows
            self.without_cells += self._count_without_cells(batch)
            yield batch
            self._progress.advance(self._batches.advanced())

    def _count_without_cells(self, batch: pa.RecordBatch) -> int:
        import numpy as np

        from rowlock._codec.arrow_buffers import bools_of

        has_cell = np.zeros(batch.num_rows, np.bool_)
        for name in self._names.intersection(batch.schema.names):
            has_cell |= bools_of(batch.column(name).is_valid())
        return batch.num_rows - int(np.count_nonzero(has_cell))
