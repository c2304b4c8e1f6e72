"""Writes the rows of standard input: a line a row, as words or as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

from rowlock.cli.arguments import ArgumentError
from rowlock.cli.layouts import Layout, TypedLayout
from rowlock.cli.quantities import count_text
from rowlock.cli.session import Call
from rowlock.cli.words import check_length, lines_of, words_of

_Value = TypeVar("_Value")


def put_lines(call: Call, table: str, layout: Layout, timestamp: int | None) -> None:
    """Writes all lines, and reports how many rows and cells. Raises ArgumentError that names the line."""
    rows = cells = 0
    with call.output.progress(f"putting into {table}", None, "rows") as progress, layout.table.batch() as batch:
        for number, line in enumerate(lines_of(call.session.stdin), start=1):
            try:
                check_length(line)
                text = line.strip()
                if not text:
                    continue
                key, changes = _row(layout, text)
            except (ArgumentError, ValueError, TypeError) as error:
                # What came before it is sent with the batch's next message or has been sent: say how far it went.
                batch.send()
                raise ArgumentError(f"line {number} of standard input: {error}{_written(rows)}") from error
            for stamp, data in changes:
                batch.put(key, data, timestamp=timestamp if stamp is None else stamp)
                cells += len(data)
            rows += 1
            progress.advance(1)
    call.output.record(
        {"table": table, "rows": rows, "cells": cells}, f"{count_text(rows, 'row')}, {count_text(cells, 'cell')}"
    )


def _written(rows: int) -> str:
    if not rows:
        return ""
    return f"; the {rows} rows before it were written" if rows != 1 else "; the row before it was written"


# The cells of one timestamp; None: the server's clock.
_Changes = Iterable[tuple[int | None, dict[Any, Any]]]


def _row(layout: Layout, text: str) -> tuple[Any, _Changes]:
    if not text.startswith("{"):
        row, *cells = words_of(text)
        if not cells:
            raise ArgumentError("the line has a row and no cells; write ROW COLUMN=VALUE ...")
        return layout.key(row), [(None, layout.cells(cells))]
    try:
        record = json.loads(text)
    except json.JSONDecodeError as error:
        raise ArgumentError(f"the line is not valid JSON: {error.msg} at character {error.pos + 1}") from error
    except ValueError as error:  # Python's limit of digits.
        raise ArgumentError("the line has a number with too many digits") from error
    if isinstance(layout, TypedLayout):
        return _typed_row(layout, record)
    key, cells = _field(record, "row", str, "the object"), _field(record, "cells", list, "the object")
    by_time: dict[int | None, dict[Any, Any]] = {}
    for cell in cells:
        if not isinstance(cell, dict):
            raise ArgumentError(f'"cells" must hold objects, and not {_shown(cell)}')
        column = layout.column(_field(cell, "column", str, "a cell"))
        value = layout.value(column, _field(cell, "value", str, "a cell"))
        timestamp = None if cell.get("timestamp") is None else _field(cell, "timestamp", int, "a cell")
        # The first one is the newest version.
        by_time.setdefault(timestamp, {}).setdefault(column, value)
    return layout.key(key), by_time.items()


_KINDS: Mapping[type, str] = {str: "a string", list: "a list", int: "a whole number"}
_SHOWN_CHARACTERS = 100


def _field(record: Mapping[str, Any], name: str, kind: type[_Value], what: str) -> _Value:
    """Returns a field of an object, as 'get --json' prints it. Raises ArgumentError if it is missing or no `kind`."""
    if name not in record:
        raise ArgumentError(f"{what} lacks \"{name}\", which 'get --json' prints")
    value = record[name]
    if not isinstance(value, kind) or isinstance(value, bool):
        raise ArgumentError(f'"{name}" must be {_KINDS[kind]}, and not {_shown(value)}')
    return value


def _shown(value: object) -> str:
    text = json.dumps(value)
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}..."


def _typed_row(layout: TypedLayout, record: Mapping[str, Any]) -> tuple[Any, _Changes]:
    """Returns the row of {name: value}, as 'get --json' prints a typed row. Null means no cell."""
    values = dict(record)
    parts = []
    for part in layout.mapping.keys:
        if part.name not in values:
            raise ArgumentError(f"the object lacks the key {part.name!r}")
        parts.append(layout.from_json(part, values.pop(part.name)))
    time = layout.mapping.timestamp
    data = {}
    for name, value in values.items():
        column = time if time is not None and name == time.name else layout.columns_by_name.get(name)
        if column is None:
            raise ArgumentError(layout.mapping.unknown_column(name))
        if value is not None:
            data[name] = layout.from_json(column, value)
    return tuple(parts) if len(parts) > 1 else parts[0], [(None, data)]
