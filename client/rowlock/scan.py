"""A scan (threads): rows of a range, streamed from the regions that have them. rowlock.aio.scan has the same names."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

import grpc
import pyarrow as pa
from rowlock_proto.v1 import region_pb2

from rowlock._codec.columns import Text
from rowlock._codec.pivot import rows_from_form
from rowlock._codec.row_form import FormColumn, form_of
from rowlock._codec.scan_message import ScanMessage
from rowlock._core.scan_plan import ScanPlan, in_row_form
from rowlock._core.scan_progress import CELL_SCHEMA, ScanProgress
from rowlock._core.view import View
from rowlock._transport import methods
from rowlock._transport.fork import gate
from rowlock._transport.servers import Servers
from rowlock.errors import ClosedError, DeadlineError, InvalidArgumentError, NotServingRegionError, RowlockError
from rowlock.mapping import Mapping, as_mapping
from rowlock.rows import Cell, check_pandas, python_cells, python_rows
from rowlock.schema import Region

if TYPE_CHECKING:
    import pandas as pd

T = TypeVar("T")


class ScanCall(Protocol):
    """The receiving half of a scan."""

    def __next__(self) -> ScanMessage: ...

    def cancel(self) -> bool: ...


class Scan(Generic[Text]):
    """Iterates (row, {column: value}) in row order, each region at one read point. Read once; one thread at a time.

    An iterator, like a file: a second loop goes on where the first one was left, and after the end finds nothing.
    Nothing is asked of a server before the first row is. Used with `with`, or left to the garbage collector, what the
    server holds for it is freed when it is left early. Its timeout is for each batch of rows, or sign of life
    while there are none.
    """

    def __init__(self, servers: Servers, view: View[Text], plan: ScanPlan) -> None:
        self._decode: Callable[[bytes], Text] = view.decode
        self._reader = _Reader(servers, plan, view.timeout_s)
        self._rows: Iterator[tuple[Text, dict[Text, Text]]] | None = None
        self._tables: Iterator[pa.Table] | None = None

    def __repr__(self) -> str:
        return f"<rowlock.Scan of {self._reader.progress.plan.table!r}>"

    @property
    def resumed(self) -> bool:
        """Whether it went on at a new read point after a loss, so that its rows are not of one moment."""
        return self._reader.progress.has_resumed

    def __iter__(self) -> Iterator[tuple[Text, dict[Text, Text]]]:
        # Not refused after the end: `while rows := list(islice(scan, 100))` asks for it once more then.
        return self

    def __next__(self) -> tuple[Text, dict[Text, Text]]:
        if self._rows is None:
            self._rows = _expanded(self._begin(None), python_rows, self._decode)
        return next(self._rows)

    def cells(self) -> Iterator[Cell[Text]]:
        """Every cell with its timestamp, versions newest first."""
        return _expanded(self._begin(None), python_cells, self._decode)

    def to_batches(self, mapping: Mapping | str | None = None) -> Iterator[pa.RecordBatch]:
        """Arrow batches of whole rows, in bounded memory: cells, or rows of a mapping's columns.

        A mapping chooses columns and no rows: a row that has none of them is there, with nulls. To leave such rows
        out, choose the mapping's columns in the scan too: `table.scan(columns=mapping.cell_columns)`.
        """
        if mapping is None:
            for table in self._begin(None):
                yield from table.to_batches()
            return
        parsed = as_mapping(mapping)
        for batch in self.form_batches(form_of(parsed)):
            yield from rows_from_form(batch, parsed).to_batches()

    def form_batches(self, columns: Sequence[FormColumn]) -> Iterator[pa.RecordBatch]:
        """Batches in row form, as row_form.py says, in the memory that they came in; for use inside rowlock."""
        for table in self._begin(columns):
            yield from table.to_batches()

    def to_arrow(self, mapping: Mapping | str | None = None) -> pa.Table:
        """All of it as one Arrow table; see to_batches."""
        parsed = None if mapping is None else as_mapping(mapping)
        return pa.Table.from_batches(
            list(self.to_batches(parsed)), schema=CELL_SCHEMA if parsed is None else parsed.schema
        )

    def to_pandas(self, mapping: Mapping | str | None = None) -> pd.DataFrame:
        """All of it as a pandas DataFrame; see to_batches. Raises ImportError if pandas is not installed."""
        check_pandas()
        return self.to_arrow(mapping).to_pandas()

    def close(self) -> None:
        """Frees what the server holds for it. Idempotent."""
        tables, self._tables = self._tables, iter(())
        self._rows = iter(())
        close = getattr(tables, "close", None)
        if close is not None:
            close()

    def __enter__(self) -> Scan[Text]:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _begin(self, columns: Sequence[FormColumn] | None) -> Iterator[pa.Table]:
        if self._tables is not None:
            raise InvalidArgumentError("a scan is read once, in one way; make another one with scan()")
        if columns is not None:
            self._reader.use_row_form(columns)
        # It must not know the scan: without a cycle it ends, and frees the server, as soon as the scan is dropped.
        self._tables = self._reader.tables()
        return self._tables


def _expanded(
    tables: Iterator[pa.Table],
    expand: Callable[[pa.Table, Callable[[bytes], Text]], Iterator[T]],
    decode: Callable[[bytes], Text],
) -> Iterator[T]:
    for table in tables:
        yield from expand(table, decode)


class _Reader:
    """Reads one scan from the servers."""

    def __init__(self, servers: Servers, plan: ScanPlan, timeout_s: float) -> None:
        self._servers = servers
        self._timeout_s = timeout_s
        self.progress = ScanProgress(plan, timeout_s)

    def use_row_form(self, columns: Sequence[FormColumn]) -> None:
        """Reads only these columns, one row a line; nothing was read yet."""
        self.progress = ScanProgress(in_row_form(self.progress.plan, columns), self._timeout_s)

    def tables(self) -> Iterator[pa.Table]:
        """Tables of whole rows, region by region, over losses."""
        progress = self.progress
        while not progress.is_done:
            region = None
            try:
                deadline = time.monotonic() + self._timeout_s
                regions = self._servers.regions_of(progress.plan.table, *progress.bounds, deadline)
                region, request = progress.request_for(regions)
                yield from self._read_region(region, request)
                continue
            except ClosedError:
                raise
            except RowlockError as error:
                failure = error
            if region is not None and isinstance(failure, NotServingRegionError):
                self._servers.regions.forget(region)
            time.sleep(progress.failed(failure, time.monotonic()))

    def _read_region(self, region: Region, request: region_pb2.ScanRequest) -> Iterator[pa.Table]:
        with gate:
            call = self._servers.channel(region.server).unary_stream(
                methods.SCAN.path,
                request_serializer=methods.SCAN.serialize,
                response_deserializer=methods.SCAN.parse,
            )(request, metadata=self._servers.metadata(region))
        try:
            while not self.progress.is_done:
                batch = self._next_batch(call, region)
                table = self.progress.region_is_done(region) if batch is None else self.progress.received(batch)
                if table is not None:
                    yield table
                if batch is None:
                    return
        finally:
            # Frees the read point at once; nothing happens if the call is over.
            call.cancel()

    def _next_batch(self, call: ScanCall, region: Region) -> ScanMessage | None:
        """The next batch, None at the region's end."""
        with gate, self._servers.watch.limit(self._timeout_s, call.cancel) as limit:
            try:
                return next(call, None)
            except grpc.RpcError as failed:
                error = self._servers.judged(failed, region.server)
        if limit.has_struck:
            table = self.progress.plan.table
            raise DeadlineError(f"no batch of the scan of {table!r} came within {self._timeout_s:g} s")
        raise error
