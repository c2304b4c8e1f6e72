"""A scan (asyncio): the rows of ranges, streamed from their regions."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Generic, Never, TypeVar

import pyarrow as pa
from rowlock_proto.v1 import region_pb2

from rowlock._codec.columns import Text
from rowlock._codec.mapped_rows import rows_from_form
from rowlock._codec.row_form import FormColumn, form_of
from rowlock._core.scan_opening import opening_request
from rowlock._core.scan_plan import ScanPlan, in_large_batches, in_row_form, of_newest_rows
from rowlock._core.scan_progress import CELL_SCHEMA, Received, ScanProgress
from rowlock._core.view import View
from rowlock.aio._transport.kept_mapping import agreed_mapping
from rowlock.aio._transport.scan_opening import OpenedScan, RegionStream, open_scan, open_stream
from rowlock.aio._transport.servers import Servers
from rowlock.errors import ClosedError, InvalidArgumentError, NotServingRegionError, RowlockError
from rowlock.mapping import Mapping, as_mapping
from rowlock.rows import Cell, check_pandas, data_frame, python_cells, python_rows
from rowlock.schema import Region

if TYPE_CHECKING:
    import pandas as pd

T = TypeVar("T")
B = TypeVar("B")


class Scan(Generic[Text]):
    """Iterates (row, {column: value}) in row order, each region at one read point. For one task at a time.

    A scan is an iterator for one pass: a second loop continues where the first one stopped, and finds nothing after
    the end. No request is sent before the first row is read. To stop early, use `async with` or `close`, which free
    the server's read point; the garbage collector does so too. The table's timeout runs from one batch of rows to the
    next; while the server finds no row, its heartbeats count as batches.

    Reading raises the errors of rowlock.errors. LeaseExpiredError: a strict scan lost its read point.
    SnapshotEndedError: its snapshot has ended. FilterTypeError: a value does not fit the type of its filter.
    InvalidArgumentError: an error or an interruption has ended the scan before.
    """

    def __init__(self, servers: Servers, view: View[Text], plan: ScanPlan) -> None:
        self._servers = servers
        self._view: View[Text] = view
        self._decode: Callable[[bytes], Text] = view.decode
        self._reader = _Reader(servers, plan, view.timeout_s)
        self._rows: AsyncIterator[tuple[Text, dict[Text, Text]]] | None = None
        self._has_begun = False

    def __repr__(self) -> str:
        return f"<rowlock.aio.Scan of {self._reader.progress.plan.table!r}>"

    @property
    def resumed(self) -> bool:
        """Whether the scan resumed at a new read point after a failure, so that its rows are not of one moment."""
        return self._reader.progress.has_resumed

    @property
    def is_unbounded(self) -> bool:
        """Whether the scan's range is the whole table; for use inside rowlock."""
        return self._reader.progress.plan.ranges == ((b"", b""),)

    def __aiter__(self) -> AsyncIterator[tuple[Text, dict[Text, Text]]]:
        # No error after the end: a loop that reads a hundred rows at a time iterates once more there.
        return self

    async def __anext__(self) -> tuple[Text, dict[Text, Text]]:
        if self._rows is None:
            if self._reader.is_closed:
                raise StopAsyncIteration
            self.expect_few_rows()
            self._rows = _expanded(self._begin_rows(), python_rows, self._decode)
        try:
            return await anext(self._rows)
        except StopAsyncIteration:
            raise
        except BaseException:
            self._rows = NoMoreRows(self._reader.progress.plan.table)
            raise

    def cells(self) -> AsyncIterator[Cell[Text]]:
        """Iterates every cell as a Cell with its timestamp, in row order, versions newest first.

        Raises InvalidArgumentError if the scan has begun.
        """
        self.expect_few_rows()
        self._check_begins()
        return _expanded(self._reader.tables(), python_cells, self._decode)

    async def to_batches(self, mapping: Mapping | str | None = None) -> AsyncIterator[pa.RecordBatch]:
        """Iterates Arrow batches of whole rows, in bounded memory.

        mapping: None: the batches hold cells: row, family, qualifier, timestamp, value. A Mapping, or its text: they
        hold one row per row of the table, with the mapping's columns. A row without any of these columns is returned
        with nulls. To leave such rows out, scan the mapping's columns only: `table.scan(columns=mapping.cell_columns)`.
        A column that outlives its batch may keep all of it in memory. To keep few columns, scan only these.

        Raises MappingError for a value that the mapping can't decode, and for a mapping that does not agree with the
        table's; InvalidArgumentError if the scan has begun.
        """
        if mapping is None:
            self._check_begins()
            self._reader.use_large_batches()
            async for table in self._reader.tables():
                for cells in table.to_batches():
                    yield cells
            return
        parsed = await agreed_mapping(self._servers, self._view, mapping)
        async for batch in self.form_batches(form_of(parsed)):
            for mapped in rows_from_form(batch, parsed).to_batches():
                yield mapped

    async def form_batches(
        self, columns: Sequence[FormColumn], *, with_keys: bool = True
    ) -> AsyncIterator[pa.RecordBatch]:
        """Iterates batches in row form (see row_form.py), without copying them; for use inside rowlock."""
        self._check_begins()
        self._reader.use_row_form(columns, with_keys=with_keys)
        async for table in self._reader.tables():
            for batch in table.to_batches():
                yield batch

    def expect_few_rows(self) -> None:
        """Says that the rows will be read one by one, so that they are probably few; for use inside rowlock."""
        self._reader.expects_few_rows = True

    async def to_arrow(self, mapping: Mapping | str | None = None) -> pa.Table:
        """Reads all rows into one Arrow table; see to_batches."""
        parsed = None if mapping is None else as_mapping(mapping)
        batches = [batch async for batch in self.to_batches(parsed)]
        return pa.Table.from_batches(batches, schema=CELL_SCHEMA if parsed is None else parsed.schema)

    async def to_pandas(self, mapping: Mapping | str | None = None) -> pd.DataFrame:
        """Reads all rows into a pandas DataFrame; see to_batches. Raises ImportError if pandas is not installed.

        With a mapping, integers and booleans have pandas' nullable types, such as Int64, with or without nulls.
        """
        check_pandas()
        rows = await self.to_arrow(mapping)
        return rows.to_pandas() if mapping is None else data_frame(rows)

    async def count(self, on_progress: Callable[[int], None] | None = None) -> int:
        """Reads all rows and returns how many there are. The server sends only their keys.

        on_progress: called with the number of rows so far. Raises InvalidArgumentError if the scan has begun.
        """
        count = 0
        async for batch in self.form_batches([]):
            count += batch.num_rows
            if on_progress is not None:
                on_progress(count)
        return count

    async def close(self) -> None:
        """Ends the scan and frees the server's read point. Idempotent."""
        self._reader.close()
        self._rows = None

    async def __aenter__(self) -> Scan[Text]:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def _begin_rows(self) -> AsyncIterator[Received]:
        self._check_begins()
        self._reader.take_newest_rows()
        return self._reader.batches()

    def _check_begins(self) -> None:
        if self._has_begun or self._reader.is_closed:
            raise InvalidArgumentError("a scan can be read only once and in one way; call scan() again")
        self._has_begun = True


async def _expanded(
    tables: AsyncIterator[B],
    expand: Callable[[B, Callable[[bytes], Text]], Iterator[T]],
    decode: Callable[[bytes], Text],
) -> AsyncIterator[T]:
    async for table in tables:
        for item in expand(table, decode):
            yield item


class NoMoreRows(AsyncIterator[Never]):
    """Replaces the rows of a scan that an error has ended, which would look like those of a complete one."""

    def __init__(self, table: str) -> None:
        self._table = table

    async def __anext__(self) -> Never:
        # Not the error that has ended it: keeping that would keep the scan, which it refers to.
        raise InvalidArgumentError(
            f"an error or an interruption has ended the scan of {self._table!r} before its last row; call scan() again"
        )


class _Reader:
    """Reads one scan from the servers.

    It does not refer to the Scan: without a cycle the read point is freed as soon as the Scan is dropped.
    """

    def __init__(self, servers: Servers, plan: ScanPlan, timeout_s: float) -> None:
        self._servers = servers
        self._timeout_s = timeout_s
        self._batches: OpenedScan | RegionStream | None = None
        self.progress = ScanProgress(plan, timeout_s)
        self.is_closed = False
        # Then the scan of each region is opened by a point request, whose answer has the first rows.
        self.expects_few_rows = plan.limit is not None

    def use_row_form(self, columns: Sequence[FormColumn], *, with_keys: bool) -> None:
        """Reads in row form, with only these columns. Call it before anything is read."""
        plan = in_row_form(self.progress.plan, columns, with_keys=with_keys)
        self.progress = ScanProgress(plan, self._timeout_s)

    def use_large_batches(self) -> None:
        """Reads batches of a size for readers of Arrow. Call it before anything is read."""
        self.progress = ScanProgress(in_large_batches(self.progress.plan), self._timeout_s)

    def close(self) -> None:
        """Frees the server's read point at once; a no-op if the call has ended."""
        self.is_closed = True
        batches, self._batches = self._batches, None
        if batches is not None:
            batches.cancel()

    def take_newest_rows(self) -> None:
        """Says that batches may be other than tables. Call it before anything is read."""
        self.progress = ScanProgress(of_newest_rows(self.progress.plan), self._timeout_s)

    async def tables(self) -> AsyncIterator[pa.Table]:
        """Iterates tables of whole rows, as `batches` does, for a plan of tables."""
        async for batch in self.batches():
            assert isinstance(batch, pa.Table), "rows that were not requested"
            yield batch

    async def batches(self) -> AsyncIterator[Received]:
        """Iterates batches of whole rows, region by region; resumes after lost connections."""
        progress = self.progress
        while not progress.is_done and not self.is_closed:
            region = None
            try:
                deadline = time.monotonic() + self._timeout_s
                regions = await self._servers.regions_of(progress.plan.table, *progress.bounds, deadline)
                region, request = progress.request_for(regions)
                async for table in self._read_region(region, request):
                    yield table
                continue
            except ClosedError:
                raise
            except RowlockError as error:
                failure = error
            if self.is_closed:
                return
            if region is not None and isinstance(failure, NotServingRegionError):
                self._servers.regions.forget(region)
            await asyncio.sleep(progress.failed(failure, time.monotonic()))

    async def _read_region(self, region: Region, request: region_pb2.ScanRequest) -> AsyncIterator[Received]:
        batches = self._batches = await self._open(region, request)
        try:
            while not self.progress.is_done and not self.is_closed:
                batch = await batches.next(self._timeout_s)
                table = self.progress.region_is_done(region) if batch is None else self.progress.received(batch)
                if table is not None:
                    yield table
                if batch is None:
                    return
        finally:
            self._batches = None
            if self.progress.is_done:
                batches.leave()
            else:
                batches.cancel()

    async def _open(self, region: Region, request: region_pb2.ScanRequest) -> OpenedScan | RegionStream:
        if self.expects_few_rows and self._servers.opens_scans_at(region):
            opening = opening_request(region.table, request)
            if opening is not None:
                try:
                    return await open_scan(self._servers, region, opening, self._timeout_s)
                except InvalidArgumentError:
                    # The server may be of an earlier version now. A call gets the error of an invalid request too.
                    self._servers.protocols.pop(region.server, None)
        return await open_stream(self._servers, region, request, self._timeout_s)
