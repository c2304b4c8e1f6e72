"""A client of tables in memory, with as much of the interface as import and export call."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from rowlock import Family
from rowlock._core.scan_progress import CELL_SCHEMA
from rowlock.bulk_outcome import BulkResult
from rowlock.errors import TableNotFoundError
from rowlock.schema import TableDescription

from tests.unit.cli.recording import RecordingClient

Cell = tuple[bytes, bytes, bytes, int, bytes]
# The timestamp of cells without one.
CLOCK = 999


@dataclass
class Stored:
    """A table: its description, and its cells, sorted, of a column the newest first."""

    description: TableDescription
    cells: list[Cell] = field(default_factory=list)

    def scan(self, *positional: object, versions: int = 1, **named: object) -> Found:
        counts: dict[Cell | tuple[bytes, ...], int] = {}
        kept = []
        for cell in sorted(self.cells, key=lambda cell: (*cell[:3], -cell[3])):
            counts[cell[:3]] = counts.get(cell[:3], 0) + 1
            if counts[cell[:3]] <= versions:
                kept.append(cell)
        return Found(kept)

    def put_arrow(self, cells: Iterable[pa.RecordBatch], *, on_progress: Callable[[int], None]) -> BulkResult:
        count = 0
        for batch in cells:
            for cell in batch.to_pylist():
                timestamp = cell.get("timestamp")
                stamp = CLOCK if timestamp is None else timestamp
                self.cells.append((cell["row"], cell["family"], cell["qualifier"], stamp, cell["value"]))
            count += batch.num_rows
            on_progress(count)
        self.cells = sorted(set(self.cells))
        return BulkResult(count, count)


@dataclass
class Found:
    """A scan."""

    cells: list[Cell]
    resumed = False

    def to_batches(self, mapping: None = None) -> Iterator[pa.RecordBatch]:
        for start in range(0, len(self.cells), 2):
            columns = zip(*self.cells[start : start + 2], strict=True)
            yield pa.RecordBatch.from_arrays(
                [pa.array(values, each.type) for values, each in zip(columns, CELL_SCHEMA, strict=True)],
                schema=CELL_SCHEMA,
            )

    def __enter__(self) -> Found:
        return self

    def __exit__(self, *error: object) -> None:
        pass


class StoreClient(RecordingClient):
    """A client of these tables."""

    def __init__(self) -> None:
        super().__init__()
        self.stored: dict[str, Stored] = {}

    def tables(self) -> list[str]:
        return sorted(self.stored)

    def kept_mapping(self, name: str) -> object:
        if name not in self.stored:
            raise TableNotFoundError(f"there is no table {name!r}", table=name)
        return None

    def describe(self, name: str) -> TableDescription:
        return self.stored[name].description

    def table(self, name: str, **options: object) -> Any:  # Any: a table, as RecordingClient is one
        return self.stored[name]

    @contextmanager
    def snapshot(self, name: str) -> Iterator[str]:
        yield f"snapshot of {name}"

    def create_table(
        self,
        name: str,
        families: Mapping[str, Family],
        *,
        durability: Any,  # Any: one of the literals
        properties: Mapping[str, object] | None = None,
        mapping: str = "",
    ) -> None:
        assert name not in self.stored
        texts = {key: str(value) for key, value in (properties or {}).items()}
        described = TableDescription(name, len(self.stored), families, durability, (), texts, mapping)
        self.stored[name] = Stored(described)
