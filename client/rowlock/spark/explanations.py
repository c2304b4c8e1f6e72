"""Rewrites errors for Spark users: which server, which table, and what to do in a notebook or a job."""

from __future__ import annotations

from rowlock.errors import DeadlineError, RowlockError, ServerUnavailableError, SnapshotEndedError
from rowlock.spark.connections import unreachable
from rowlock.spark.options import SnapshotMode
from rowlock.spark.snapshots import LATEST_LEASE_MS


def explained(
    error: RowlockError, server: str, table: str, waited_s: float, mode: SnapshotMode = "token"
) -> RowlockError:
    """Returns the error with a message for Spark users, or the error itself without its traceback.

    Spark prints the traceback before the message. waited_s: how long the caller waited for an unreachable server.
    """
    # The cause of a deadline is the last error before it.
    cause = error.__cause__ if isinstance(error, DeadlineError) else error
    if isinstance(cause, ServerUnavailableError):
        return unreachable(server, cause, waited_s)
    if isinstance(error, DeadlineError):
        # A server that accepts connections and does not answer, because it hangs or is overloaded.
        return DeadlineError(
            f"{error.message} (waited {waited_s:g} s; if the server only needs longer, raise the option timeout and "
            "run the job again)",
            table=error.table,
        )
    return _ended(table, error, mode) if isinstance(error, SnapshotEndedError) else error.with_traceback(None)


def _ended(table: str, error: SnapshotEndedError, mode: SnapshotMode) -> SnapshotEndedError:
    """Returns the error with advice. Spark plans a DataFrame once, so that repeating its action can't help."""
    what = f"the snapshot of table {table!r} that this DataFrame reads has ended: unused for an hour"
    advice = "Make a new DataFrame by calling spark.read...load() again"
    if mode == "held":
        what = (
            f"the snapshot of table {table!r} that the option snapshot names has ended: its with block "
            "ended, or it was not used for the time of its lease"
        )
        advice = "Take a new one with rowlock.spark.snapshot(...), and call spark.read...load() with its id"
    elif mode == "latest":
        minutes = LATEST_LEASE_MS // 60_000
        what = f"the snapshot of table {table!r} that this query reads has ended: unused for {minutes} minutes"
        advice = (
            "Run the query again; if tasks have to wait for that long, omit snapshot=latest. For df.rdd and "
            "df.foreach, call spark.read...load() again"
        )
    else:
        advice += "; a temporary view needs the option snapshot=latest"
    return SnapshotEndedError(
        f"{what}, or the table was dropped or truncated, or the server restarted. {advice}. ({error.message})",
        table=table,
        ended_ms=error.ended_ms,
        reason=error.reason,
    )
