"""The command export: rows or cells of a table into a file, or all tables of a server into a folder."""

from __future__ import annotations

import json
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated, Any

import typer

from rowlock.cli import arguments
from rowlock.cli.arguments import ArgumentError
from rowlock.cli.layouts import NO_MAPPING, TypedLayout, check_text, layout_of
from rowlock.cli.quantities import count_text
from rowlock.cli.scans import note_if_resumed
from rowlock.cli.session import Call
from rowlock.cli.shared_options import (
    CellsOption,
    FileArgument,
    FormatOption,
    MappingOption,
    OptionalTableArgument,
    PrefixOption,
    SeparatorOption,
    SnapshotOption,
    StartOption,
    StopOption,
    WhereOption,
    integer_from,
)
from rowlock.cli.start import import_large
from rowlock.cli.transfer.formats import STANDARD, Format, format_of
from rowlock.cli.transfer.importing import mapping_for

if TYPE_CHECKING:
    import pyarrow as pa

    from rowlock import Mapping, Scan


def export_rows(
    call: Call,
    table: OptionalTableArgument = None,
    file: FileArgument = None,
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
    cells: CellsOption = False,
    versions: Annotated[
        int | None,
        typer.Option(
            "--versions",
            parser=integer_from(1),
            metavar="COUNT",
            show_default=False,
            help="With --cells: at most this many versions of each column. Default: 1.",
        ),
    ] = None,
    snapshot: SnapshotOption = None,
    folder: Annotated[
        Path | None,
        typer.Option("--all", metavar="FOLDER", show_default=False, help="Export all tables into a new folder."),
    ] = None,
) -> None:
    r"""Exports rows to a file, by a mapping.

    The format is CSV, JSON lines (.jsonl, .ndjson) or Parquet; the first two may be compressed (.gz). FILE may be -,
    with --format; the result is then on standard error. BINARY columns have \xNN escapes in CSV and JSON.

    The file appears when it is complete. If the server restarts meanwhile, the rows are not of one moment, and a
    warning on standard error says so. A missing cell is null, also in a row without any of the mapping's columns.

    --start, --stop, --prefix and --where are typed by the mapping, as in 'rowlock scan'; with --cells by the table's.

    --cells writes a line per cell, with its timestamp, as 'rowlock import --cells' takes it. --all exports every cell
    and the settings of all tables, for 'rowlock import --all'. See docs/import_export.md.

    --json: {"table", "file", "rows": number}, with --cells "cells" instead of "rows"; with --all a line per table
    """
    if folder is not None:
        others = (table, mapping, file_format, start, stop, prefix, where, separator, versions, snapshot)
        if any(other is not None for other in others) or cells or mapped_only or overwrite:
            raise ArgumentError("--all exports all cells of all tables, and takes no other options")
        import_large("rowlock.cli.transfer.whole_store")
        from rowlock.cli.transfer.whole_store import export_all

        export_all(call, folder)
        return
    if table is None or file is None:
        raise ArgumentError("give a TABLE and a FILE, or --all FOLDER")
    if cells and mapped_only:
        raise ArgumentError("--cells excludes --mapped-only: cells are exported as they are")
    if cells and mapping is not None and mapping.strip().lower() != NO_MAPPING:
        raise ArgumentError(
            "--cells excludes --mapping, but for none: cells are exported as they are. The table's mapping types "
            "--start, --stop, --prefix and --where; with --mapping none they are bytes"
        )
    if versions is not None and not cells:
        raise ArgumentError("--versions needs --cells, because a row of a mapping has one value in each column")
    kind = format_of(file, file_format, separator)
    import_large("rowlock.cli.transfer.files")
    from rowlock.cli.transfer.targets import check_new_file

    if file != STANDARD:
        check_new_file(Path(file), overwrite=overwrite)
    check_text(start, stop, prefix)
    parsed = None if cells else mapping_for(call, table, mapping)
    layout = (
        layout_of(call, table, mapping) if parsed is None else TypedLayout(call.client.table(table, mapping=parsed))
    )
    first, last, begins = layout.encoded_bounds(start, stop, prefix)
    condition = layout.where(where)
    options: dict[str, Any] = {} if snapshot is None else {"snapshot": arguments.snapshot_id(snapshot)}
    if versions is not None:
        options["versions"] = versions
    # A scan of columns omits the rows without any of them.
    chosen = (parsed.cell_columns or None) if mapped_only and parsed is not None else None
    found = call.client.table(table).scan(first, last, begins, columns=chosen, where=condition, **options)
    with found, _target(call, file, overwrite=overwrite) as content:
        count = write_scan(call, table, found, parsed, content, kind)
    what = "cells" if cells else "rows"
    record, text = {"table": table, "file": file, what: count}, count_text(count, what[:-1])
    if file == STANDARD:
        call.output.note(json.dumps(record) if call.json_lines else text)
    else:
        call.output.record(record, text)
    if snapshot is None:
        note_if_resumed(call, found)


def write_scan(
    call: Call, table: str, found: Scan[bytes], mapping: Mapping | None, content: IO[bytes], kind: Format
) -> int:
    """Writes the rows of a scan, or the cells if there is no mapping. Returns how many."""
    from rowlock.cli.transfer import files

    count = 0
    schema = _cell_schema() if mapping is None else mapping.schema
    with (
        files.writer(content, kind, schema) as write,
        call.output.progress(f"exporting {table}", None, "cells" if mapping is None else "rows") as progress,
    ):
        for batch in found.to_batches(mapping):
            write(batch)
            count += batch.num_rows
            progress.advance(batch.num_rows)
    return count


def _cell_schema() -> pa.Schema:
    from rowlock._core.scan_progress import CELL_SCHEMA

    return CELL_SCHEMA


def _target(call: Call, file: str, *, overwrite: bool) -> AbstractContextManager[IO[bytes]]:
    from rowlock.cli.transfer.targets import new_file, standard_output

    if file == STANDARD:
        return nullcontext(standard_output(call.session.stdout))
    return new_file(Path(file), overwrite=overwrite)
