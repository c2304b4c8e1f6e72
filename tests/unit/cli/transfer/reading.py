"""Reads and writes files as the commands import and export do."""

from __future__ import annotations

import io
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from rowlock import Mapping
from rowlock.cli.transfer.batches import Read
from rowlock.cli.transfer.columns import FileColumns, columns_of
from rowlock.cli.transfer.files import reader, writer
from rowlock.cli.transfer.formats import format_of
from rowlock.cli.transfer.sources import source_of


def read_batches(
    path: Path,
    columns: Mapping | FileColumns,
    nulls: Sequence[str] = (),
    separator: str | None = None,
    *,
    kind: str | None = None,
) -> list[Read]:
    """Returns the batches of a file. kind: as --format. Raises ArgumentError."""
    wanted = columns_of(columns) if isinstance(columns, Mapping) else columns
    found = format_of(str(path), kind, separator)
    with (
        source_of(str(path), io.StringIO(), is_compressed=found.is_compressed) as source,
        reader(source, found, wanted, nulls) as content,
    ):
        return list(content.reads)


def read_rows(
    path: Path,
    columns: Mapping | FileColumns,
    nulls: Sequence[str] = (),
    separator: str | None = None,
    *,
    kind: str | None = None,
) -> list[dict[str, Any]]:
    """Returns the rows of a file; arguments as in read_batches."""
    batches = read_batches(path, columns, nulls, separator, kind=kind)
    return [row for read in batches for row in read.batch.to_pylist()]


def write_file(path: Path, batches: Iterable[pa.RecordBatch], schema: pa.Schema, separator: str | None = None) -> None:
    """Writes batches into a file, in the format that its name says."""
    with path.open("wb") as file, writer(file, format_of(str(path), None, separator), schema) as write:
        for batch in batches:
            write(batch)
