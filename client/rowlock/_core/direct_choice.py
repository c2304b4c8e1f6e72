"""Which way the calls to one server go, without I/O: over a direct connection, or else by gRPC.

1. The server is asked once (ServerInfo) whether it takes direct connections. Then one is opened, if it does.
2. If that fails with what was known before, the server is asked again, because it may have restarted with another run
   and another port. If it fails with what the server has just said, calls go by gRPC, and the reason is kept.
3. A failed attempt is repeated after a hundred times its duration, a second at least, ten minutes at most, and twice as
   long after each further failure. So a port that swallows packets costs calls one hundredth of their time.
4. Each scan and each stream of bulk batches has a connection of its own, to where that for point operations goes.
   If that fails, for instance because the server has too many, they go by gRPC for a while, or until a connection for
   point operations was opened again.
5. When a connection of either kind was lost, an attempt is due at once, and the server is asked again if it fails.
"""

from __future__ import annotations

from rowlock._core.direct import Announcement

_PAUSE_S_MIN, _PAUSE_S_MAX = 1.0, 600.0
_PAUSE_FACTOR = 100.0
_STREAMS_PAUSE_S_MIN = 5.0


class StreamChoice:
    """The choice for the scans of one server, or for its streams of bulk batches, while a direct connection is open."""

    __slots__ = ("_retry_at", "reason")

    def __init__(self) -> None:
        # Why they go by gRPC although a direct connection was open; empty: they don't.
        self.reason = ""
        self._retry_at = 0.0

    def may_open(self, now: float) -> bool:
        """Whether a connection may be opened."""
        return now >= self._retry_at

    def opened(self) -> None:
        """Records that a connection was opened."""
        self.reason = ""

    def failed(self, reason: str, began: float, now: float) -> None:
        """Records that no connection could be opened. The next attempt is due after a pause as in rule 3."""
        self.reason = reason
        self._retry_at = now + min(_PAUSE_S_MAX, max(_STREAMS_PAUSE_S_MIN, _PAUSE_FACTOR * (now - began)))

    def retry(self) -> None:
        """Makes an attempt due at once."""
        self._retry_at = 0.0


class DirectChoice:
    """The choice for one server. Times are seconds on one monotonic clock. Not thread-safe: its driver locks."""

    __slots__ = ("_failure_count", "_retry_at", "announcement", "bulk", "is_known", "reason", "scans")

    def __init__(self) -> None:
        # What the server announced; only valid if it is known. None: it takes no direct connections.
        self.announcement: Announcement | None = None
        self.is_known = False
        # Why calls go by gRPC; empty: they don't.
        self.reason = ""
        self.scans, self.bulk = StreamChoice(), StreamChoice()
        self._retry_at = 0.0
        self._failure_count = 0

    @property
    def has_fallen_back(self) -> bool:
        """Whether calls go by gRPC for now."""
        return bool(self.reason)

    def may_open(self, now: float) -> bool:
        """Whether an attempt to open a direct connection is due."""
        return now >= self._retry_at

    def learned(self, announcement: Announcement | None, folder_id: str) -> None:
        """Records what the server announces. folder_id: the data folder that is expected; empty: any."""
        if announcement is not None and folder_id and announcement.data_folder_id != folder_id:
            # gRPC refuses a call for another folder, and the client then looks its regions up again.
            announcement = None
        self.announcement, self.is_known = announcement, True

    def opened(self) -> None:
        """Records that a connection was opened."""
        self.reason = ""
        self._failure_count = 0
        self._retry_streams()

    def failed(self, reason: str, began: float, now: float) -> None:
        """Records that no connection could be opened."""
        self.reason = reason
        backoff_s = _PAUSE_S_MIN * 2.0 ** min(self._failure_count, 30)
        self._failure_count += 1
        self._retry_at = now + min(_PAUSE_S_MAX, max(backoff_s, _PAUSE_FACTOR * (now - began)))
        self.is_known = False

    def not_offered(self) -> None:
        """Records that the server takes no direct connections."""
        self.reason = "the server does not offer direct connections"
        self._retry_at = float("inf")

    def lost(self) -> None:
        """Records that a connection to the server, of either kind, was lost."""
        self._retry_at = 0.0
        self._retry_streams()
        if self.has_fallen_back:
            self.is_known = False

    def _retry_streams(self) -> None:
        self.scans.retry()
        self.bulk.retry()
