"""Bulk writes (asyncio): any number of rows of a table, changed at one moment."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Sequence
from types import TracebackType

from rowlock_proto.v1 import sessions_pb2, types_pb2

from rowlock._codec.columns import Name, check_timestamp
from rowlock._core.bulk_input import ArrowInput, bulk_pieces
from rowlock._core.bulk_parts import Stage
from rowlock._core.bulk_send import checked_sizes
from rowlock._core.bulk_write_requests import (
    BulkWriteResult,
    GatheredRows,
    WriteOptions,
    result_from,
    staging_error,
)
from rowlock._core.defaults import BATCH_BYTES_DEFAULT, BUSY_TIMEOUT_S_DEFAULT
from rowlock._core.lock_requests import LockPolicy
from rowlock._core.point import ColumnName, Data
from rowlock._core.retry import TABLE_OPERATION_S
from rowlock._core.session_requests import IDLE_S_DEFAULT, checked_ref
from rowlock._core.view import View
from rowlock._transport import methods
from rowlock.aio._ending_call import call_to_end
from rowlock.aio._locked_call import call_with_locks
from rowlock.aio._transport.bulk import put_pieces
from rowlock.aio._transport.kept_mapping import agreed_mapping, kept_mapping
from rowlock.aio._transport.servers import Servers
from rowlock.aio.session import Session, open_session
from rowlock.errors import (
    BulkError,
    ClosedError,
    InvalidArgumentError,
    RowlockError,
    SessionEndedError,
    UnknownOutcomeError,
)
from rowlock.mapping import Mapping


class BulkWrite:
    """A bulk write, returned by `Client.bulk_write`. For one task at a time.

    What it writes is staged on the server, invisible, and survives a restart of it as long as the session lives. The
    end of the `async with` block commits; an exception in the block aborts. docs/bulk_writes.md.
    """

    def __init__(
        self,
        servers: Servers,
        view: View[bytes],
        session: Session,
        number: int,
        options: WriteOptions,
        policy: LockPolicy,
        *,
        is_session_mine: bool,
    ) -> None:
        self._servers = servers
        self._view = view
        self._number = number
        self._options = options
        self._policy = policy
        self._is_session_mine = is_session_mine
        self._rows = GatheredRows()
        self._is_over = False
        self._session = session
        self._staged = Stage(session.ref)
        self._result: BulkWriteResult | None = None

    @property
    def session(self) -> Session:
        """The session that holds it: its own, or the one that was passed."""
        return self._session

    @property
    def result(self) -> BulkWriteResult | None:
        """The result of the commit; None before."""
        return self._result

    def __repr__(self) -> str:
        return f"<rowlock.aio.BulkWrite of {self._view.table!r}>"

    async def write(
        self,
        data: ArrowInput,
        mapping: Mapping | str | None = None,
        *,
        timestamp: int | None = None,
        batch_bytes: int = BATCH_BYTES_DEFAULT,
        busy_timeout: float = BUSY_TIMEOUT_S_DEFAULT,
    ) -> int:
        """Stages an Arrow table, batch, reader or iterable of batches.

        With a mapping the data is rows, as `Table.put_arrow` takes them. Without one it is cells; or, if the table
        keeps a mapping, rows of that, as `TypedTable.put_arrow` takes them.

        Returns the number of its rows when all are durable. Of two changes of a cell the later one wins. Raises
        SessionEndedError, LimitExceededError and the errors of put_arrow; then not all of `data` is staged, so abort.
        """
        self._check()
        await self._send_gathered()
        if mapping is None:
            kept = await kept_mapping(self._servers, self._view)
            return await self._stage(data, kept, timestamp, batch_bytes, busy_timeout, is_partial=True, or_cells=True)
        own = await agreed_mapping(self._servers, self._view, mapping)
        return await self._stage(data, own, timestamp, batch_bytes, busy_timeout)

    async def _write_rows(
        self, data: ArrowInput, mapping: Mapping, timestamp: int | None, batch_bytes: int, busy_timeout: float
    ) -> int:
        """Stages rows of a mapping, as TypedTable.put_arrow takes them."""
        await self._send_gathered()
        return await self._stage(data, mapping, timestamp, batch_bytes, busy_timeout, is_partial=True)

    async def put(self, row: Name, data: Data[ColumnName], *, timestamp: int | None = None) -> None:
        """Adds a row's columns. They are sent when enough are gathered, and before the commit."""
        self._check()
        check_timestamp(timestamp)
        self._rows.put(row, data, timestamp)
        await self._send_if_full()

    async def delete(self, row: Name, columns: Iterable[Name], *, timestamp: int | None = None) -> None:
        """Adds deletes of these columns of a row."""
        self._check()
        check_timestamp(timestamp)
        self._rows.delete(row, columns, timestamp)
        await self._send_if_full()

    async def _put_and_delete(
        self, row: bytes, puts: Data[ColumnName], deletes: Sequence[Name], timestamp: int | None
    ) -> None:
        """Adds a row's columns and deletes of others, all of them before it sends any."""
        self._check()
        check_timestamp(timestamp)
        if puts:
            self._rows.put(row, puts, timestamp)
        if deletes:
            self._rows.delete(row, deletes, timestamp)
        await self._send_if_full()

    async def _send_if_full(self) -> None:
        if self._rows.is_full:
            await self._send_gathered()

    async def _send_gathered(self) -> None:
        """Stages the gathered rows. If that fails they stay, and are sent before whatever comes next."""
        cells = self._rows.table()
        if cells is not None:
            await self._stage(cells, None, None, BATCH_BYTES_DEFAULT, BUSY_TIMEOUT_S_DEFAULT)
            self._rows.clear()

    async def _stage(
        self,
        data: ArrowInput,
        mapping: Mapping | None,
        timestamp: int | None,
        batch_bytes: int,
        busy_timeout: float,
        *,
        is_partial: bool = False,
        or_cells: bool = False,
    ) -> int:
        """Stages data, and returns the number of its rows. is_partial, or_cells: as in bulk_pieces."""
        self._check()
        check_timestamp(timestamp)
        sizes = checked_sizes(batch_bytes, self._servers.request_bytes_max, takes_rows=self._servers.takes_rows)
        pieces = bulk_pieces(data, mapping, timestamp, sizes, is_partial=is_partial, or_cells=or_cells)
        with self.session.noting_its_end():
            try:
                written = await put_pieces(self._servers, self._view, pieces, busy_timeout, None, self._staged)
            except BulkError as error:
                raise staging_error(error) from error
        return written.row_count

    async def commit(self) -> BulkWriteResult:
        """Makes all of it visible at once; returns when it is durable. A second call returns the same result.

        Raises ConflictError, LockUnavailableError, SessionEndedError and InvalidArgumentError. Then nothing was
        written, and what was staged stays: commit again, or abort. Raises CorruptionError if the server has lost
        something that was staged, or a region is damaged; then nothing was written either.
        """
        if self._result is not None:
            return self._result
        await self._send_gathered()
        self._check()
        if self._servers.sessions.is_closed:
            raise ClosedError("the client was closed")
        request = self._options.commit_request(self.session.ref, self._number, self._staged.numbers)
        with self.session.noting_its_end():
            try:
                answer = await call_with_locks(
                    self._servers, methods.COMMIT_BULK_WRITE, request, self._policy, self._view.timeout_s
                )
            except ClosedError as error:
                raise UnknownOutcomeError(
                    f"the client was closed during the commit of a bulk write of table {self._view.table!r}, which may "
                    "have been applied",
                    table=self._view.table,
                ) from error
        self._result = result_from(answer)
        self._is_over = True
        await self._end_session()
        return self._result

    async def abort(self) -> None:
        """Removes what was staged. Idempotent."""
        if self._is_over:
            return
        self._is_over = True
        self._rows.clear()
        if self._is_session_mine:
            await self._end_session()
        elif self.session.is_open:
            request = sessions_pb2.AbortBulkWriteRequest(session=self.session.ref, table=self._view.table)
            with contextlib.suppress(SessionEndedError):
                await call_to_end(self._servers, methods.ABORT_BULK_WRITE, request, self._view.timeout_s)

    async def _end_session(self) -> None:
        if self._is_session_mine:
            with contextlib.suppress(RowlockError):  # The server ends it without heartbeats.
                await self.session.end()

    def _check(self) -> None:
        """Raises SessionEndedError if the session has ended, InvalidArgumentError after the end of the write."""
        if self._is_over:
            raise InvalidArgumentError(f"the bulk write of table {self._view.table!r} is over; open another one")
        self.session.check()

    async def __aenter__(self) -> BulkWrite:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            with contextlib.suppress(RowlockError):
                await self.abort()
        elif not self._is_over:
            try:
                await self.commit()
            except BaseException:
                with contextlib.suppress(RowlockError):
                    await self.abort()
                raise


async def open_bulk_write(
    servers: Servers,
    options: WriteOptions,
    purpose: str,
    session: Session | None,
    policy: LockPolicy,
    timeout_s: float,
) -> BulkWrite:
    """See Client.bulk_write."""
    is_mine = session is None
    if session is None:
        what = purpose or f"bulk write of {options.table}"
        session = await open_session(servers, what, None, None, IDLE_S_DEFAULT, timeout_s)
    try:
        request = sessions_pb2.OpenBulkWriteRequest(session=checked_ref(session), table=options.table)
        answer = await servers.call(methods.OPEN_BULK_WRITE, request, timeout_s, work_s=TABLE_OPERATION_S)
    except BaseException:
        if is_mine:
            with contextlib.suppress(RowlockError):
                await session.end()
        raise
    # It writes by the mapping that the table keeps now.
    servers.regions.forget_table(options.table)
    view = View(options.table, timeout_s, bytes, types_pb2.DURABILITY_UNSPECIFIED)
    return BulkWrite(servers, view, session, answer.number, options, policy, is_session_mine=is_mine)
