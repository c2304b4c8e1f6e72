"""The reader and the writer of a file, by its format."""

from __future__ import annotations

import contextlib
import gzip
from collections.abc import Callable, Iterator, Sequence
from typing import IO, cast

import pyarrow as pa

from rowlock.cli.arguments import ArgumentError
from rowlock.cli.transfer.batches import Content, batch_bytes_for, joined
from rowlock.cli.transfer.columns import FileColumns
from rowlock.cli.transfer.csv_files import Dialect, csv_content, csv_writer
from rowlock.cli.transfer.formats import Format
from rowlock.cli.transfer.json_lines import json_content, json_writer
from rowlock.cli.transfer.parquet_files import parquet_content, parquet_writer
from rowlock.cli.transfer.sources import Source

_COMPRESSION_LEVEL = 6


@contextlib.contextmanager
def reader(source: Source, kind: Format, columns: FileColumns, nulls: Sequence[str] = ()) -> Iterator[Content]:
    """Yields the file's rows. Raises ArgumentError if the file lacks a column or can't be parsed.

    nulls: texts of CSV that mean null, besides an empty field.
    """
    try:
        if kind.kind == "parquet":
            with parquet_content(source, columns) as content:
                yield _joined(content, source)
            return
        if kind.kind == "csv":
            content = csv_content(source, columns, Dialect(nulls, kind.separator))
        else:
            content = json_content(source, columns)
        yield _joined(content, source)
    except MemoryError:  # Arrow's, too: the file may be good.
        raise
    except pa.ArrowException as error:
        raise ArgumentError(f"{source.name} can't be read as {kind.kind} with this mapping: {error}") from error


@contextlib.contextmanager
def writer(file: IO[bytes], kind: Format, schema: pa.Schema) -> Iterator[Callable[[pa.RecordBatch], None]]:
    """Yields a function that writes a batch of the schema. The content is complete when the block ends."""
    with contextlib.ExitStack() as stack:
        content = file
        if kind.is_compressed:
            compressed = gzip.GzipFile("", "wb", _COMPRESSION_LEVEL, file, mtime=0)
            # It has all methods that writers call.
            content = cast("IO[bytes]", stack.enter_context(compressed))
        match kind.kind:
            case "csv":
                yield stack.enter_context(csv_writer(content, schema, kind.separator))
            case "jsonl":
                yield stack.enter_context(json_writer(content, schema))
            case _:
                yield stack.enter_context(parquet_writer(content, schema))


def _joined(content: Content, source: Source) -> Content:
    return Content(joined(content.reads, batch_bytes_for(source.byte_count)), content.total, content.unit)
