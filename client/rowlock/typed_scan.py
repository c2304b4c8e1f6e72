# Made from client/rowlock/aio/typed_scan.py by tools/async_to_sync.py: change that, then `make faces`.
"""A scan of typed rows (threads)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, cast

import pyarrow as pa

from rowlock._codec.key_scalars import Key
from rowlock._core.table_mapping import TableMapping
from rowlock._core.typed_rows import Row, python_rows
from rowlock._core.view import View
from rowlock._transport.kept_mapping import STALE_MAPPING, compare_again, mapping_in_use
from rowlock._transport.servers import Servers
from rowlock.mapping import Mapping
from rowlock.rows import check_pandas, data_frame
from rowlock.scan import NoMoreRows, Scan

if TYPE_CHECKING:
    import pandas as pd


class TypedScan(Generic[Row]):
    """Iterates (key, {name: value}) in row order, each region at one read point. For one thread at a time.

    An absent cell is None. Like a Scan it is an iterator for one pass, and sends no request before the first row is
    read. Reading raises MappingError for bytes that don't fit the mapping, and the errors of a Scan.
    """

    def __init__(
        self,
        servers: Servers,
        view: View[bytes],
        mapping: TableMapping,
        scan: Scan[bytes],
        names: Sequence[str] | None,
    ) -> None:
        self._table = view.table
        self._reader = _Reader(servers, view, mapping, scan, names)
        self._rows: Iterator[tuple[Key, dict[str, Any]]] | None = None

    def __repr__(self) -> str:
        return f"<rowlock.TypedScan of {self._table!r}>"

    @property
    def resumed(self) -> bool:
        """Whether the scan resumed at a new read point after a failure, so that its rows are not of one moment."""
        return self._reader.scan.resumed

    def __iter__(self) -> Iterator[tuple[Key, Row]]:
        return self

    def __next__(self) -> tuple[Key, Row]:
        if self._rows is None:
            if self._reader.is_closed:
                raise StopIteration
            self._rows = self._reader.rows()
        try:
            key, row = next(self._rows)
        except StopIteration:
            raise
        except BaseException:
            self._rows = NoMoreRows(self._table)
            raise
        # A TypedDict is a dict; table() has compared it with the mapping.
        return key, cast(Row, row)

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        """Iterates Arrow batches with the mapping's columns, in bounded memory."""
        yield from self._reader.batches(self._reader.mapping())

    def to_arrow(self) -> pa.Table:
        """Reads all rows into one Arrow table with the mapping's columns."""
        mapping = self._reader.mapping()
        batches = list(self._reader.batches(mapping))
        return pa.Table.from_batches(batches, schema=mapping.schema)

    def to_pandas(self) -> pd.DataFrame:
        """Reads all rows into a pandas DataFrame. Raises ImportError if pandas is not installed.

        Integers and booleans have pandas' nullable types, such as Int64, with or without nulls.
        """
        check_pandas()
        return data_frame(self.to_arrow())

    def count(self, on_progress: Callable[[int], None] | None = None) -> int:
        """Reads all rows and returns how many there are; see Scan.count."""
        return self._reader.scan.count(on_progress)

    def close(self) -> None:
        """Ends the scan and frees the server's read point. Idempotent."""
        self._reader.is_closed = True
        self._reader.scan.close()
        self._rows = None

    def __enter__(self) -> TypedScan[Row]:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class _Reader:
    """Reads a typed scan. It does not refer to the TypedScan: see Scan."""

    def __init__(
        self,
        servers: Servers,
        view: View[bytes],
        mapping: TableMapping,
        scan: Scan[bytes],
        names: Sequence[str] | None,
    ) -> None:
        self._servers = servers
        self._view = view
        self._mapping = mapping
        self._names = names
        self.scan = scan
        self.is_closed = False

    def rows(self) -> Iterator[tuple[Key, dict[str, Any]]]:
        mapping = self.mapping()
        self.scan.expect_few_rows()
        for batch in self.batches(mapping):
            yield from python_rows(batch, mapping)

    def batches(self, mapping: Mapping) -> Iterator[pa.RecordBatch]:
        try:
            yield from self.scan.to_batches(mapping)
        except STALE_MAPPING:
            compare_again(self._servers, self._view, self._mapping)
            raise

    def mapping(self) -> Mapping:
        """Returns the mapping of the columns that this scan reads."""
        mapping = mapping_in_use(self._servers, self._view, self._mapping).codec.mapping
        return mapping if self._names is None else mapping.select(self._names)
