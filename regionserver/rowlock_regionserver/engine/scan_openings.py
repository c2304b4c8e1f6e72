"""Scans that are opened by point requests: the first rows come with the answer, and mostly they are all.

1. Admit, on the loop: the scan is counted as an open one, and listed, in its session if it has one.
2. Try, on the loop: small windows are read from the memstores and the block cache, for a short slice. A scan that would
   have to wait for a disk, reads a snapshot, or takes longer is handed over.
3. Hand over: a worker of the pool `stream` goes on, by way of the block cache, until it has the first rows.
4. Answer, on the loop: a scan that is over is released; another one is held, for the call by which its client goes on.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Protocol

from rowlock_regionserver.config import KIB
from rowlock_regionserver.engine.held_scans import new_id
from rowlock_regionserver.engine.interfaces import OpenScanRequest, Responder, ScannedRegion, ScanToOpen
from rowlock_regionserver.engine.listed_scan import AdmittedScan, ListedScan, ScanAbout
from rowlock_regionserver.engine.point_run import PointRun
from rowlock_regionserver.engine.scans import Scans
from rowlock_regionserver.errors import InvalidRequestError, LimitExceededError
from rowlock_regionserver.sessions.session import SessionRef
from rowlock_regionserver.sessions.sessions import Sessions

if TYPE_CHECKING:
    from rowlock_regionserver.engine.points import Points

# A client that wants more rows goes on by a call.
FIRST_BYTES_MAX = 64 * KIB
# One that has named so low a limit probably wants all rows up to it.
LIMITED_ROWS_MAX = 1000
FIRST_LIMITED_BYTES_MAX = 256 * KIB
# A larger request is read by a worker, which cannot admit a scan.
REQUEST_BYTES_MAX = 256 * KIB
# How long the loop reads windows of one scan: as long as it may serve one point stream.
INLINE_SECONDS_MAX = 0.003


class NamedRegion(ScannedRegion, Protocol):
    """A region to scan, with the name of its table."""

    @property
    def table_name(self) -> str: ...


class SessionsOfClients(Protocol):
    """What clients hold."""

    @property
    def sessions(self) -> Sessions: ...


class ScanHost(Protocol):
    """The host of regions as scans see it. Thread-safe."""

    @property
    def clients(self) -> SessionsOfClients: ...

    def region(self, region_id: int) -> NamedRegion:
        """Returns a region of this server. Raises NotServingRegionError if it is not here."""

    def region_at(self, region_id: int, snapshot_id: bytes) -> NamedRegion:
        """Returns the region as of a snapshot. Raises SnapshotEndedError, and NotServingRegionError."""


class ScanOpenings:
    """Opens scans for point requests. Used on the event loop."""

    def __init__(self, host: ScanHost, scans: Scans) -> None:
        self._host = host
        self.scans = scans

    def open(self, points: Points, request: OpenScanRequest, responder: Responder, *, is_large: bool) -> ScanRun | None:
        """Answers the request, or returns the run with which it is handed over to a worker."""
        try:
            if request.held_scan:
                self.scans.held.free(request.held_scan)
                responder.send(request.answer((), 0, 0))
                return None
            if is_large or request.byte_count() > REQUEST_BYTES_MAX:
                raise LimitExceededError(
                    f"the request to open a scan has {request.byte_count()} bytes, too many for a point request; open "
                    "the scan by a call of Scan",
                    limit="open_scan_bytes_max",
                    limit_value=REQUEST_BYTES_MAX,
                    found=request.byte_count(),
                )
            to_open = request.read()
            admitted = self.admit(request.region_id, to_open)
        except Exception as error:
            responder.send(request.failure(error, "opening a scan"))
            return None
        bytes_max = FIRST_LIMITED_BYTES_MAX if 0 < to_open.plan.row_limit <= LIMITED_ROWS_MAX else FIRST_BYTES_MAX
        run = ScanRun(points, request, responder, self.scans, admitted, bytes_max)
        return None if not to_open.snapshot_id and run.try_inline() else run

    def admit(self, region_id: int, to_open: ScanToOpen) -> AdmittedScan:
        """Admits a scan of a region; see Scans.admit. Raises the error of the region, snapshot or session, too."""
        host, snapshot_id, session = self._host, to_open.snapshot_id, to_open.session
        region = host.region_at(region_id, snapshot_id) if snapshot_id else host.region(region_id)
        about = ScanAbout(region.table_name, region_id, to_open.owner, session is not None)
        holding: Callable[[ListedScan], contextlib.AbstractContextManager[None]] = (
            (lambda _: contextlib.nullcontext()) if session is None else partial(self._held_by, session)
        )
        return self.scans.admit(region, to_open.plan, to_open.encode, about, holding)

    @contextlib.contextmanager
    def _held_by(self, ref: SessionRef, scan: ListedScan) -> Iterator[None]:
        """Returns a context in which the scan belongs to the session. Raises SessionEndedError."""
        sessions = self._host.clients.sessions
        with sessions.using(ref) as session:
            sessions.attach(session.ref, scan)
            try:
                yield
            finally:
                sessions.detach(session.ref, scan)

    def take(self, held_scan: int, region_id: int) -> AdmittedScan:
        """Returns a held scan, which the caller releases; see HeldScans.

        Raises InvalidRequestError for a scan of another region."""
        admitted = self.scans.held.take(held_scan)
        if admitted.listed.about.region_id != region_id:
            self.scans.release(admitted)
            raise InvalidRequestError(
                f"the held scan is of region {admitted.listed.about.region_id} and not of region {region_id}; send the "
                "region_id with which it was opened"
            )
        return admitted


class ScanRun(PointRun[OpenScanRequest]):
    """An admitted scan, until its first rows are answered."""

    NAME = "opening of a scan"

    __slots__ = ("_admitted", "_bytes_max", "_held_id", "_rows_answer", "_scans")

    def __init__(
        self,
        points: Points,
        request: OpenScanRequest,
        responder: Responder,
        scans: Scans,
        admitted: AdmittedScan,
        bytes_max: int,
    ) -> None:
        super().__init__(points, request, responder)
        self._scans = scans
        self._admitted = admitted
        self._bytes_max = bytes_max
        self._held_id = 0
        self._rows_answer = b""

    def try_inline(self) -> bool:
        """2 Try. Returns whether the request was answered; else hand it over."""
        points, responder = self._points, self._responder
        try:
            if not self._admitted.scan.find_first(self._bytes_max, INLINE_SECONDS_MAX, may_wait=False):
                return False
            answer = self._made_answer()
        except Exception as error:
            answer = self._request.failure(error, "opening a scan")
        if len(answer) > points.few_bytes:
            if responder.reserve(len(answer), must_fit=True):
                responder.release(len(answer))
            else:
                answer = self._request.failure(points.answer_refusal(), "")
        self._settle(answer)
        responder.send(answer)
        return True

    def _execute(self) -> None:
        try:
            seconds = self._points.config.scan_heartbeat_ms / 1000
            self._admitted.scan.find_first(self._bytes_max, seconds, may_wait=True)
            answer = self._made_answer()
        except Exception as error:
            answer = self._request.failure(error, "opening a scan")
        self._answer_from_worker(answer)

    def _made_answer(self) -> bytes:
        scan = self._admitted.scan
        self._held_id = 0 if scan.is_over else new_id()
        self._rows_answer = self._request.answer(scan.first, scan.read_point, self._held_id)
        scan.first = []
        return self._rows_answer

    def _answer(self, answer: bytes) -> None:
        self._settle(answer)
        super()._answer(answer)

    def _settle(self, answer: bytes) -> None:
        """Holds the scan if the answer has its first rows and there are more; else releases it."""
        if self._held_id and answer is self._rows_answer:
            self._scans.held.hold(self._held_id, self._admitted, self._responder)
        else:
            self._scans.release(self._admitted)
