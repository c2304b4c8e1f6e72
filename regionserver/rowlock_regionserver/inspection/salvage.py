"""`rowlock-server salvage DIR OUT`: extracts the intact data of a stopped server's folder as Parquet.

Each table becomes one file with the table's name; if that is too long for a file, with its beginning and the table's
id. A region of a table whose catalog is lost has a file of its own (unnamed_regions.py). Each file has the columns row,
family, qualifier, timestamp (milliseconds since the epoch) and value; its cells are the live versions, by row, family,
qualifier, then newest first. Cells whose time to live has passed are written too if they still exist. OUT/report.txt
lists the tables and all damage: any data may have been in the damaged places, tombstones too, so a deleted cell may be
back.

Exit code 0: everything was intact. 1: something was damaged, and the intact data was written. 2: nothing was written
(folder in use, not a server's folder, of another version, OUT is not empty or can't be made). Nothing in DIR is
changed. Memory: the intact part of damaged store files, and the cells that are only in the log.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, TextIO

from rowlock_regionserver.cells import ANSWER_SCHEMA, NEWEST, ReadPoint
from rowlock_regionserver.errors import CorruptionError, DataFolderError, RegionServerError
from rowlock_regionserver.files import Files
from rowlock_regionserver.inspection.folder import held, read_folder
from rowlock_regionserver.inspection.salvaged_cells import SalvagedRegion, read_cells
from rowlock_regionserver.log_lines import reason_of
from rowlock_regionserver.operations import ScanPlan, Selection
from rowlock_regionserver.scan.ranges import RowsAt
from rowlock_regionserver.scan.scanner import scan

INTACT, DAMAGED, NOT_WRITTEN = 0, 1, 2

_ALL_VERSIONS = ScanPlan(selection=Selection(versions=(1 << 31) - 1))
# The limit of common file systems.
_FILE_NAME_BYTES_MAX = 255
# Time to live is evaluated at the epoch, when no cell had expired.
_EVERYTHING = ReadPoint(NEWEST, now_ms=0)


@dataclass(frozen=True, slots=True)
class SalvagedTable:
    """The file that was written for one table."""

    name: str
    path: Path
    row_count: int
    cell_count: int


def main(arguments: Sequence[str], stdout: TextIO | None = None, stderr: TextIO | None = None) -> int:
    """Runs the command; see the module."""
    stdout, stderr = stdout or sys.stdout, stderr or sys.stderr
    parser = argparse.ArgumentParser(
        prog="rowlock-server salvage",
        description="Extracts the intact data of a stopped server's folder as Parquet, one file for each table, with a "
        "report.",
        epilog="Exit codes: 0 everything was intact, 1 something was damaged, 2 nothing was written.",
    )
    parser.add_argument("folder", metavar="DIR", type=Path, help="the data folder (--data of the server)")
    parser.add_argument(
        "out", metavar="OUT", type=Path, help="a new or an empty folder, for the Parquet files and report.txt"
    )
    options = parser.parse_args(arguments)
    damage: list[CorruptionError] = []
    try:
        report = report_of(salvage(options.folder.resolve(), options.out, Files(), damage), damage)
    except (RegionServerError, OSError, MemoryError) as error:
        stderr.write(f"rowlock-server salvage: {reason_of(error)}\n")
        return NOT_WRITTEN
    stdout.write(report)
    return DAMAGED if damage else INTACT


def salvage(folder: Path, out: Path, files: Files, damage: list[CorruptionError]) -> list[SalvagedTable]:
    """Writes each table's file and the report into `out`, and adds damage to `damage`.

    Raises DataFolderError, and OSError when a file can't be read or written; then `out` is as it was.
    """
    with held(folder, files):
        if out.exists() and not out.is_dir():
            raise DataFolderError(f"{out} is not a folder; name a new or an empty folder")
        if not out.parent.is_dir():
            raise DataFolderError(f"{out} can't be made because {out.parent} is missing; make that folder first")
        if out.resolve().is_relative_to(folder):
            raise DataFolderError(f"{out} is inside the data folder {folder}; name a folder outside of it")
        if out.exists() and any(out.iterdir()):
            raise DataFolderError(f"{out} is not empty; name a new or an empty folder")
        stored = read_folder(folder, files, damage)
        by_table: dict[str, list[SalvagedRegion]] = {}
        for region in read_cells(stored, files, damage):
            by_table.setdefault(region.stored.table.name, []).append(region)
        with contextlib.ExitStack() as undo:
            if not out.exists():
                out.mkdir(mode=0o700)
                undo.callback(out.rmdir)
            try:
                tables = [
                    _write(name, out / _file_name(regions[0]), regions, files, undo)
                    for name, regions in sorted(by_table.items())
                ]
                with _new_file(out / "report.txt", files, undo) as file:
                    file.write(report_of(tables, damage).encode(errors="backslashreplace"))
            except OSError as error:  # Of a full disk, which does not name the file.
                raise OSError(error.errno, error.strerror, error.filename or str(out)) from error
            undo.pop_all()
        return tables


def report_of(tables: Iterable[SalvagedTable], damage: Sequence[CorruptionError]) -> str:
    """Returns the report of files and damage, a line each."""
    lines = [
        f"table {table.name}: {table.row_count} rows, {table.cell_count} cells in {table.path}" for table in tables
    ]
    lines += [
        f"damaged: {error.path} at byte {error.offset}: expected {error.expected}, found {error.found}"
        for error in damage
    ]
    lines.append(f"{len(damage)} damaged places" if damage else "nothing is damaged")
    return "\n".join(lines) + "\n"


def _file_name(region: SalvagedRegion) -> str:
    table = region.stored.table
    name = f"{table.name}.parquet"
    # No table's name has a '~', so this name is unique.
    return name if len(name) <= _FILE_NAME_BYTES_MAX else f"{table.name[:200]}~{table.table_id}.parquet"


def _new_file(path: Path, files: Files, undo: contextlib.ExitStack) -> BinaryIO:
    """Opens a new file, which `undo` removes. O_EXCL: another user can't have put a link or a file in its place."""
    file = os.fdopen(files.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL), "wb")
    undo.callback(files.remove, path)
    return file


def _write(
    name: str, path: Path, regions: Sequence[SalvagedRegion], files: Files, undo: contextlib.ExitStack
) -> SalvagedTable:
    import pyarrow.parquet as pa_parquet

    row_count = cell_count = 0
    with (
        _new_file(path, files, undo) as file,
        pa_parquet.ParquetWriter(file, ANSWER_SCHEMA, compression="zstd") as writer,
    ):
        for region in sorted(regions, key=lambda region: region.stored.entry.start):
            entry = region.stored.entry
            for answer in scan(region.view, _ALL_VERSIONS, (RowsAt((entry.start, entry.stop), _EVERYTHING),)):
                writer.write_table(answer.table)
                row_count += answer.row_count
                cell_count += answer.table.num_rows
    return SalvagedTable(name, path, row_count, cell_count)
