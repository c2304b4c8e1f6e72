"""Infers a mapping from the first rows of a table: their columns, as STRING where all values are text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import pyarrow as pa
from rowlock_proto.shown_names import escaped

from rowlock._codec.arrow_buffers import joined
from rowlock.errors import MappingError
from rowlock.mapping import Mapping
from rowlock.spark.decoding import bytes_of
from rowlock.spark.options import ReadOptions
from rowlock.table import Table

KEY_NAME = "row"
_BLANKS = "\t\n\r"


def inferred_mapping(table: Table[bytes], options: ReadOptions) -> Mapping:
    """Returns a mapping of the columns in the first rows that the options select, sorted by family and qualifier.

    A column is STRING if all of its values in these rows are text, else BINARY; likewise the key, which is named "row".
    Raises MappingError if there are no rows, or for a qualifier that no mapping can name.
    """
    start, stop = options.row_range
    keys_are_text = True
    is_text: dict[bytes, bool] = {}
    with table.scan(start or None, stop or None, where=options.where, limit=options.infer_rows) as scan:
        for batch in scan.to_batches():
            keys_are_text = keys_are_text and _are_text(bytes_of(batch.column("row")))
            for name, values in _by_column(batch):
                is_text[name] = is_text.get(name, True) and _are_text(values)
    if not is_text:
        raise MappingError(
            f"table {options.table!r} has no rows to infer a mapping from; set the option mapping instead"
        )
    return Mapping(mapping_text(is_text, keys_are_text))


def mapping_text(is_text: dict[bytes, bool], keys_are_text: bool) -> str:
    """Returns the mapping's text. A column's name is its qualifier, or family:qualifier if that is not unique."""
    texts = {column: _text(column) for column in sorted(is_text)}
    names = Counter([KEY_NAME, *(text.partition(":")[2].lower() for text in texts.values())])
    parts = [f"{KEY_NAME} {_type(keys_are_text)} :key"]
    seen: dict[str, str] = {}
    for column, text in texts.items():
        qualifier = text.partition(":")[2]
        name = qualifier if qualifier and names[qualifier.lower()] == 1 else text
        if name.lower() in seen:
            raise MappingError(
                f"the columns {seen[name.lower()]} and {text} would both be named {name!r}, as Spark compares names; "
                "read without infer, which gives all columns as a map, or give a mapping with other names"
            )
        seen[name.lower()] = text
        parts.append(f"{_quoted(name)} {_type(is_text[column])} {_quoted(text)}")
    return ", ".join(parts)


def _by_column(batch: pa.RecordBatch) -> Iterable[tuple[bytes, list[bytes]]]:
    names = bytes_of(joined(batch.column("family"), b":", batch.column("qualifier")))
    by_name: dict[bytes, list[bytes]] = {}
    for name, value in zip(names, bytes_of(batch.column("value")), strict=True):
        by_name.setdefault(name, []).append(value)
    return by_name.items()


def _are_text(values: Iterable[bytes]) -> bool:
    """Returns whether all values are UTF-8 without control characters. (A counter of 8 bytes is valid UTF-8 too.)"""
    try:
        return all(character.isprintable() or character in _BLANKS for value in values for character in value.decode())
    except UnicodeDecodeError:
        return False


def _text(column: bytes) -> str:
    try:
        return column.decode()
    except UnicodeDecodeError:
        raise MappingError(
            f"the column {escaped(column)} is not UTF-8, so no mapping can name it; read without infer, which gives "
            "all columns as a map, or give a mapping of the columns you need"
        ) from None


def _type(is_text: bool) -> str:
    return "STRING" if is_text else "BINARY"


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
