"""Sessions whose client goes away: the server must end them, and free their locks and their staged rows."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import rowlock

from tests.soak.drawn_cells import CellDraw, arrow_of
from tests.waiting import wait_until

_LOCKED, _STAGED = "lock", "bulk write"


class ExpiringSessions:
    """Used by one thread.

    rows: what is staged and never committed; writers find it if it becomes visible. problem: takes what is wrong.
    """

    def __init__(
        self,
        client: rowlock.Client,
        folder: Path,
        table: str,
        rows: Sequence[bytes],
        draw: CellDraw,
        problem: Callable[[str], None],
        generator: random.Random,
    ) -> None:
        self._client = client
        self._folder = folder
        self._table = table
        self._rows = rows
        self._draw = draw
        self._problem = problem
        self._random = generator
        self.counts: Counter[str] = Counter()

    def turn(self) -> None:
        """Lets one session expire, and judges what is left of it."""
        kinds = self._random.choice([(_LOCKED,), (_STAGED,), (_STAGED, _LOCKED)])
        session_id = self._abandoned(kinds)
        if session_id is None:
            return
        if _LOCKED in kinds:
            self._try_lock(session_id)
        wait_until(lambda: not self._is_open(session_id))
        self._judge(session_id, kinds)
        self.counts["sessions that expired"] += 1
        for kind in kinds:
            self.counts[f"sessions that expired with a {kind}"] += 1

    def _abandoned(self, kinds: Sequence[str]) -> str | None:
        """Opens a session that holds these, and drops it: its heartbeats stop. Returns its id."""
        session = self._client.session("expiring", idle_s=self._random.uniform(0.5, 1.5))
        try:
            if _STAGED in kinds:
                write = self._client.bulk_write(self._table, replace=self._random.random() < 0.5, session=session)
                for _ in range(self._random.randint(1, 3)):
                    rows = self._random.sample(self._rows, min(len(self._rows), 50))
                    write.write(arrow_of([self._draw.cell(row, self._draw.column(b"f")) for row in rows]))
            if _LOCKED in kinds:
                self._lock(session)
        except (rowlock.InvalidArgumentError, rowlock.NotServingRegionError, rowlock.SessionEndedError) as error:
            # Its region was split or merged meanwhile, or the machine is so slow that the session had ended before.
            self.counts[f"sessions that got no lock, {type(error).__name__}"] += 1
            session.end()
            return None
        return session.id

    def _lock(self, session: rowlock.Session) -> None:
        """Takes the exclusive lock of the table, or of a region."""
        region = None
        if self._random.random() < 0.5:
            region = self._random.choice(self._client.regions(self._table)).region_id
        self._client.lock(self._table, "exclusive", region=region, session=session)

    def _try_lock(self, session_id: str) -> None:
        """Asks for the lock of the table at once: it is refused as long as the session is open."""
        try:
            with self._client.lock(self._table, "exclusive", wait_s=0, retries=0):
                # Now it can't be open any more.
                if self._is_open(session_id):
                    self._problem(f"session {session_id} had a lock that another session got")
        except rowlock.LockUnavailableError:
            self.counts["locks refused while another session has one"] += 1

    def _judge(self, session_id: str, kinds: Sequence[str]) -> None:
        [ended] = [info for info in self._client.sessions(ended=True) if info.session_id == session_id]
        if not ended.reason.startswith("it had no heartbeat"):
            self._problem(f"session {session_id} ended because {ended.reason!r}, not for lack of heartbeats")
        held = sorted(item.kind for item in ended.held)
        if held != sorted(kinds):
            self._problem(f"session {session_id} has released {held}, expected {sorted(kinds)}")
        if any(lock.holder == session_id for lock in self._client.locks(self._table)):
            self._problem(f"session {session_id} has ended, and its lock is still there")
        if self._has_staged(session_id):
            self._problem(f"session {session_id} has ended, and its bulk write is still staged")
        with self._client.lock(self._table, "exclusive", purpose="after the end of an expired session"):
            pass

    def _is_open(self, session_id: str) -> bool:
        return any(info.session_id == session_id for info in self._client.sessions())

    def _has_staged(self, session_id: str) -> bool:
        return any(session_id.encode() in _content(path) for path in self._folder.glob("staging/*/write"))


def _content(path: Path) -> bytes:
    """Returns a file that may be removed at the moment."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return b""
