"""All tables of a server as a folder: a file of cells for each table, and tables.json with their settings.

    tables.json
        {"format": "rowlock tables", "version": 1, "tables": [
            {"table": name, "file": name in the folder, "cells": number, "durability": ..., "mapping": text or null,
             "properties": {name: value}, "families": {name: {"versions": ..., ...}}}, ...]}
    NAME.parquet
        the cells of a table, all versions, as `rowlock export --cells` writes them

The cells of a table are those of one moment, that of a snapshot which was taken when its turn came. tables.json is
written last.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Container, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rowlock import Family
from rowlock.cli.arguments import ArgumentError, durability
from rowlock.cli.session import Call
from rowlock.cli.transfer import files
from rowlock.cli.transfer.columns import CELL_COLUMNS
from rowlock.cli.transfer.exporting import write_scan
from rowlock.cli.transfer.formats import Format
from rowlock.cli.transfer.importing import FileRows, put_rows
from rowlock.cli.transfer.sources import source_of
from rowlock.cli.transfer.targets import check_new_folder, new_folder
from rowlock.schema import Durability, TableDescription
from rowlock.selection import VERSIONS_ALL

TABLES_FILE = "tables.json"
_FORMAT, _VERSION = "rowlock tables", 1
_PARQUET = Format("parquet")
_REPEAT = "repeat the import with --existing; it writes the same cells again"
# File systems take names of 255 bytes.
_NAME_CHARACTERS_MAX = 200
_NOT_OF_FILES = re.compile(r"[^A-Za-z0-9_.-]|^\.")


@dataclass(frozen=True, slots=True)
class _Table:
    """A table of the folder."""

    name: str
    file: str
    durability: Durability
    mapping: str | None
    properties: Mapping[str, str]
    families: Mapping[str, Family]


def export_all(call: Call, folder: Path) -> None:
    """Exports all tables into a new folder, which appears when it is complete."""
    check_new_folder(folder)
    records: list[dict[str, Any]] = []
    with new_folder(folder) as partial:
        for name in call.client.tables():
            file = file_name(name, {record["file"].lower() for record in records})
            records.append(_export_one(call, name, partial / file))
        head = {"format": _FORMAT, "version": _VERSION, "tables": records}
        with (partial / TABLES_FILE).open("w", encoding="utf-8") as written:
            json.dump(head, written, indent=1)
            written.write("\n")
            written.flush()
            os.fsync(written.fileno())
    shown = [{key: record[key] for key in ("table", "file", "cells")} for record in records]
    call.output.listing(
        ("table", "cells"), ((record, (str(record["table"]), str(record["cells"]))) for record in shown)
    )


def import_all(call: Call, folder: Path, *, existing: bool) -> None:
    """Makes the tables of a folder and writes their cells.

    existing: write into tables that exist; otherwise they are refused, before anything is made.
    """
    tables = _tables_of(folder)
    present = set(call.client.tables())
    refused = [table.name for table in tables if table.name in present]
    if refused and not existing:
        raise ArgumentError(
            f"the server has {'tables' if len(refused) > 1 else 'the table'} {', '.join(refused)} already; drop them, "
            "or give --existing to write into them as they are. Nothing was changed"
        )
    done: list[tuple[_Table, int]] = []
    try:
        for table in tables:
            if table.name not in present:
                _create(call, table)
            done.append((table, _import_one(call, table, folder / table.file)))
    except KeyboardInterrupt:
        imported = ", ".join(table.name for table, _ in done) or "no table"
        call.session.interrupt_note = (
            f"{imported} of {len(tables)} tables {'was' if len(done) < 2 else 'were'} imported whole. To go on, "
            f"repeat the import with --existing; it writes the same cells again"
        )
        raise
    call.output.listing(
        ("table", "cells"),
        (
            ({"table": table.name, "file": table.file, "cells": cells}, (table.name, str(cells)))
            for table, cells in done
        ),
    )


def file_name(table: str, taken: Container[str]) -> str:
    """Returns the name of a table's file: the table's, with %NN for what file names should not have.

    taken: names that other tables have, in lower case, because some file systems do not distinguish it.
    """
    stem = _NOT_OF_FILES.sub(lambda found: "".join(f"%{byte:02x}" for byte in found[0].encode()), table)
    stem = stem[:_NAME_CHARACTERS_MAX]
    name, number = f"{stem}.parquet", 1
    while name.lower() in taken:
        number += 1
        name = f"{stem}~{number}.parquet"
    return name


def _export_one(call: Call, name: str, file: Path) -> dict[str, Any]:
    with call.client.snapshot(name) as snapshot:
        described = call.client.describe(name)
        found = call.client.table(name).scan(versions=VERSIONS_ALL, snapshot=snapshot)
        with found, file.open("wb") as content:
            count = write_scan(call, name, found, None, content, _PARQUET)
            content.flush()
            os.fsync(content.fileno())
    return {"table": name, "file": file.name, "cells": count, **_settings(described)}


def _settings(found: TableDescription) -> dict[str, Any]:
    return {
        "durability": found.durability,
        "mapping": found.mapping_text or None,
        "properties": dict(found.properties),
        "families": {name: asdict(family) for name, family in found.families.items()},
    }


def _create(call: Call, table: _Table) -> None:
    options: dict[str, Any] = {} if table.mapping is None else {"mapping": table.mapping}
    call.client.create_table(
        table.name, table.families, durability=table.durability, properties=table.properties, **options
    )


def _import_one(call: Call, table: _Table, file: Path) -> int:
    with (
        source_of(str(file), call.session.stdin, is_compressed=False) as source,
        files.reader(source, _PARQUET, CELL_COLUMNS) as content,
    ):
        rows = FileRows(content, source.name, None)
        return put_rows(call, table.name, rows, None, repeat=_REPEAT).cell_count


def _tables_of(folder: Path) -> Sequence[_Table]:
    """Returns the tables of a folder, whose files all exist. Raises ArgumentError."""
    head = folder / TABLES_FILE
    if not head.is_file():
        raise ArgumentError(f"{folder} has no {TABLES_FILE}; give a folder that 'rowlock export --all' has made")
    try:
        found = json.loads(head.read_text("utf-8"))
        if found["format"] != _FORMAT or found["version"] != _VERSION:
            raise ArgumentError(
                f"{head} has the format {found['format']!r}, version {found['version']!r}; this version of rowlock "
                f"takes {_FORMAT!r}, version {_VERSION}"
            )
        tables = [_table(record) for record in found["tables"]]
    except (KeyError, TypeError, AttributeError, UnicodeDecodeError, json.JSONDecodeError) as error:
        raise ArgumentError(f"{head} is not as 'rowlock export --all' writes it: {error!r}") from error
    for table in tables:
        if Path(table.file).name != table.file or not (folder / table.file).is_file():
            raise ArgumentError(f"{folder} has no file {table.file}, which {TABLES_FILE} names. Nothing was changed")
    return tables


def _table(record: Mapping[str, Any]) -> _Table:
    return _Table(
        name=str(record["table"]),
        file=str(record["file"]),
        durability=durability(record["durability"]),
        mapping=record["mapping"],
        properties=dict(record["properties"]),
        families={name: Family(**settings) for name, settings in record["families"].items()},
    )
