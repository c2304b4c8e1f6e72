"""Overwriting: a job that replaces all rows of a table by one bulk write, all or nothing.

The driver opens a session with a bulk write before the job. The tasks stage their batches into it, where nobody sees
them. When all tasks are done the driver commits: at one moment the old rows are gone and the new ones there. The commit
names the batches of the tasks that succeeded, so the server refuses it if it has lost one. If the job fails, the driver
ends the session, and the table stays as it was.

Spark plans and commits a job in different processes, and tasks run in others. So nobody sends heartbeats: the session
is renewed by each batch that is staged, and has the longest idle limit. If the driver dies, the session ends after it,
or by `rowlock sessions end ID`; what was staged is removed then.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass

from rowlock_proto.v1 import sessions_pb2, types_pb2

from rowlock._core.bulk_write_requests import BulkWriteResult, result_from, write_options
from rowlock._core.lock_requests import DEFAULT_LOCK_POLICY
from rowlock._core.retry import TABLE_OPERATION_S
from rowlock._core.session_requests import open_request
from rowlock._locked_call import call_with_locks
from rowlock._transport import methods
from rowlock.client import Client
from rowlock.errors import RowlockError

_IDLE_S = 24 * 3600.0


@dataclass(frozen=True, slots=True)
class StagedJob:
    """The bulk write of a job. Picklable."""

    table: str
    session_id: str
    session_number: int
    write_number: int

    @property
    def session(self) -> types_pb2.SessionRef:
        """Names the session in requests."""
        return types_pb2.SessionRef(session_id=self.session_id, number=self.session_number)


# A client's servers are private to the package.


def open_job(client: Client, table: str, timeout_s: float) -> StagedJob:
    """Opens the bulk write of a job that replaces all rows. Raises RowlockError."""
    opening = open_request(f"Spark overwrites {table}", None, None, _IDLE_S)
    session = client._servers.call(methods.OPEN_SESSION, opening, timeout_s).session
    ref = types_pb2.SessionRef(session_id=session.session_id, number=session.number)
    request = sessions_pb2.OpenBulkWriteRequest(session=ref, table=table)
    try:
        answer = client._servers.call(methods.OPEN_BULK_WRITE, request, timeout_s, work_s=TABLE_OPERATION_S)
    except BaseException:
        _end(client, ref, timeout_s)
        raise
    return StagedJob(table, session.session_id, session.number, answer.number)


def commit_job(client: Client, job: StagedJob, timeout_s: float, staged_batches: Iterable[int]) -> BulkWriteResult:
    """Replaces all rows of the table by those that were staged. Raises RowlockError; then the session is open.

    staged_batches: the numbers of the batches of the tasks that succeeded. The server refuses the commit without them.
    """
    options = write_options(job.table, True, None, None, None, None, None)
    request = options.commit_request(job.session, job.write_number, staged_batches)
    answer = call_with_locks(client._servers, methods.COMMIT_BULK_WRITE, request, DEFAULT_LOCK_POLICY, timeout_s)
    _end(client, job.session, timeout_s)
    return result_from(answer)


def abort_job(client: Client, job: StagedJob, timeout_s: float) -> None:
    """Ends the session; removes what was staged. If the server is unreachable, it does so when the session is idle."""
    _end(client, job.session, timeout_s)


def _end(client: Client, session: types_pb2.SessionRef, timeout_s: float) -> None:
    with suppress(RowlockError):
        request = sessions_pb2.EndSessionRequest(session=session)
        client._servers.call(methods.END_SESSION, request, timeout_s, work_s=TABLE_OPERATION_S)
