"""Commands that carry whole tables: import and export, CSV and Parquet, by a mapping, in bounded memory."""

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
from rowlock.cli.words import (
    FormatOption,
    MappingOption,
    PrefixOption,
    SeparatorOption,
    StartOption,
    StopOption,
    TableWord,
    WhereOption,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

    from rowlock import BulkError, Mapping
    from rowlock.cli import file_formats
    from rowlock.cli.output import Progress

FORMATS = ("csv", "parquet")


def import_rows(
    call: Call,
    table: TableWord,
    file: Annotated[Path, typer.Argument(metavar="FILE", show_default=False)],
    mapping: MappingOption,
    file_format: FormatOption = None,
    null: Annotated[
        list[str] | None,
        typer.Option("--null", metavar="TEXT", show_default=False, help="CSV: what else stands for no cell, NA say."),
    ] = None,
    separator: SeparatorOption = None,
) -> None:
    r"""Loads the rows of a file, by a mapping.

    Columns that the mapping does not name are left out.

    In CSV the first line names the columns, an empty field is no cell and "" an empty value; BINARY columns hold \xNN
    escapes. Each batch of rows is written whole; if a later one fails, the earlier ones stay: import again, the same
    rows end up the same. A row exists by its cells: one that has no value but its key is not in the table.

    --json: {"table", "rows": rows read, "cells": cells written, "rows_without_cells": number}
    """
    from rowlock import BulkError, Mapping
    from rowlock.cli import file_formats

    kind = _format(file, file_format)
    between = _separator(kind, separator)
    parsed = Mapping(mapping)
    with (
        file_formats.reader(file, kind, parsed, null or (), between) as batches,
        call.output.progress(f"importing {file.name}", batches.total, batches.unit) as progress,
    ):
        rows = _Rows(batches, parsed, progress)
        try:
            result = call.client.table(table).put_arrow(rows, parsed)
        except BulkError as error:
            raise _with_advice(error) from error
    text = f"{rows.count} rows, {result.cell_count} cells"
    if rows.without_cells:
        text += f"; not in the table, because they have no value but their key: {rows.without_cells}"
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
    table: TableWord,
    file: Annotated[Path, typer.Argument(metavar="FILE", show_default=False)],
    mapping: MappingOption,
    file_format: FormatOption = None,
    start: StartOption = None,
    stop: StopOption = None,
    prefix: PrefixOption = None,
    where: WhereOption = None,
    mapped_only: Annotated[
        bool, typer.Option("--mapped-only", help="Leave out rows that have none of the mapping's columns.")
    ] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace a file that is there.")] = False,
    separator: SeparatorOption = None,
) -> None:
    """Writes rows to a file, by a mapping.

    The file appears when it is whole. If the server was lost meanwhile, the rows are not of one moment, and that is
    told on standard error. A missing cell is null, also in a row that has none of the mapping's columns.

    --json: {"table", "file", "rows": number}
    """
    from rowlock import Mapping
    from rowlock.cli import file_formats

    kind = _format(file, file_format)
    between = _separator(kind, separator)
    if file.exists() and not file.is_file() and not file.is_dir():
        # The finished file takes its place, so a device would be gone.
        raise arguments.ArgumentError(f"{file} is no regular file; name one")
    if file.exists() and not overwrite:
        raise arguments.ArgumentError(f"{file} is there already; say --overwrite to replace it")
    if file.is_dir() or not file.parent.is_dir():
        problem = (
            "is a folder; name a file in it" if file.is_dir() else f"can't be made: there is no folder {file.parent}"
        )
        raise arguments.ArgumentError(f"{file} {problem}")
    parsed = Mapping(mapping)
    condition = filter_of(where)
    first, last, begins = arguments.row_range(start, stop, prefix)
    # Columns chosen here leave out the rows that have none of them.
    chosen = (parsed.cell_columns or None) if mapped_only else None
    found = call.client.table(table).scan(first, last, begins, columns=chosen, where=condition)
    rows = 0
    partial = file.with_name(f".{file.name}.partial-{os.getpid()}")
    try:
        with (
            found,
            call.output.progress(f"exporting {table}", None, "rows") as progress,
            file_formats.writer(partial, kind, parsed, between) as write,
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


def _format(file: Path, given: str | None) -> str:
    found = (given or file.suffix.removeprefix(".")).lower()
    if found not in FORMATS:
        raise arguments.ArgumentError(f"the format of {file.name} is unknown: say --format csv or --format parquet")
    return found


def _separator(kind: str, given: str | None) -> str:
    """What stands between fields. Raises ArgumentError for what can't, and for a format without it."""
    from rowlock.cli.file_formats import SEPARATOR_DEFAULT, SEPARATORS

    if given is None:
        return SEPARATOR_DEFAULT
    if kind != "csv":
        raise arguments.ArgumentError(f"--separator is for csv, and the format is {kind}")
    found = "\t" if given == r"\t" else given
    if found not in SEPARATORS:
        raise arguments.ArgumentError(rf"--separator is one of , ; | or \t, not {typed(given)}")
    return found


def _with_advice(error: BulkError) -> Exception:
    """What a load that wrote a part of the rows ends with."""
    advice = "import again, the same rows end up the same"
    cause = error.__cause__
    if isinstance(cause, arguments.ArgumentError):
        # The file is at fault, and its line says more than the number of a row.
        written = sum(map(len, error.applied))
        return arguments.ArgumentError(f"{cause}. {written} rows were written: mend the file and {advice}")
    return type(error)(
        f"{error.message.rstrip('.')}. To be sure of all rows {advice}",
        applied=error.applied,
        failed=error.failed,
        unknown=error.unknown,
        table=error.table,
    )


class _Rows:
    """The rows of a file on their way into a table, counted."""

    def __init__(self, batches: file_formats.Batches, mapping: Mapping, progress: Progress) -> None:
        self.count = 0
        # They have no value but their key.
        self.without_cells = 0
        self._batches = batches
        self._names = [column.name for column in mapping.values]
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
        for name in self._names:
            has_cell |= bools_of(batch.column(name).is_valid())
        return batch.num_rows - int(np.count_nonzero(has_cell))
