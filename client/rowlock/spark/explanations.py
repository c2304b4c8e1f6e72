"""What went wrong in the words of a user of Spark: which server, which table, and what to do in a notebook or a job."""

from __future__ import annotations

from rowlock.errors import DeadlineError, RowlockError, ServerUnavailableError, SnapshotEndedError
from rowlock.spark.connections import gone
from rowlock.spark.options import Moment
from rowlock.spark.read_points import LATEST_LEASE_MS


def explained(error: RowlockError, server: str, table: str, waited_s: float, moment: Moment = "token") -> RowlockError:
    """The same error in other words, where they help; else itself, without the way that it came through the client.

    Spark prints that way in front of what happened. waited_s: how long a server that is away was waited for.
    """
    # A server that stayed away until the deadline is what the deadline met last.
    met = error.__cause__ if isinstance(error, DeadlineError) else error
    if isinstance(met, ServerUnavailableError):
        return gone(server, met, waited_s)
    return _ended(table, error, moment) if isinstance(error, SnapshotEndedError) else error.with_traceback(None)


def _ended(table: str, error: SnapshotEndedError, moment: Moment) -> SnapshotEndedError:
    """Spark plans a DataFrame once, so that trying it again can't help."""
    what = f"the moment of table {table!r} that this DataFrame reads is not kept any more: it was not used for an hour"
    advice = "Read the table anew, by calling spark.read...load() again"
    if moment == "held":
        what = (
            f"the snapshot of table {table!r} that the option snapshot names has ended: its with block was left, or it "
            "was not used for its lease"
        )
        advice = "Take a new one by rowlock.spark.snapshot(...), and call spark.read...load() with its id"
    elif moment == "latest":
        minutes = LATEST_LEASE_MS // 60_000
        what = (
            f"the moment of table {table!r} that this query reads is not kept any more: it was not used for {minutes} "
            "minutes"
        )
        advice = (
            "Run the query again, and where tasks have to wait for so long, leave out snapshot=latest. For df.rdd and "
            "df.foreach, call spark.read...load() again"
        )
    else:
        advice += "; a temporary view needs the option snapshot=latest"
    return SnapshotEndedError(
        f"{what}, or the table was dropped or truncated, or the server was started anew. {advice}. ({error.message})",
        table=table,
    )
