"""Request ids: a change that is sent again is made once, and answered as the first time.

A request id is (client, sequence). With each request the client names its floor, the lowest sequence it still waits
for; below it the answers are forgotten, so that what is kept is bounded by what is in flight. An id below the floor
can't be judged and is answered with UnknownOutcomeError. A client that was not heard of for an hour is forgotten. Of
one that never raises its floor, or waits long for one change while it makes very many, only the newest answers are
kept.

The answer is kept with the write number that made it: it must not be repeated before that number is published.
Answers are in the log with their change, and move to the manifest at flush. A condition's "no" changes nothing and is
in no log: a restart forgets it, and with it whatever of that request was still waiting.

An answer may list large cells: new ones of appends, and what a condition saw. A region keeps CELL_BYTES_KEPT_MAX of
them, the newest, and always the last answer's. An older answer is cut: that its change was made stays known, its cells
not.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from dataclasses import dataclass
from operator import attrgetter
from typing import NamedTuple

from rowlock_regionserver.clock import Clock
from rowlock_regionserver.config import KIB, MIB
from rowlock_regionserver.errors import UnknownOutcomeError
from rowlock_regionserver.operations import RequestId, RowResult
from rowlock_regionserver.region.answer_size import bytes_of_cells

# Of the cells in kept answers of one region.
CELL_BYTES_KEPT_MAX = 16 * MIB
# Of the cells in one client's answers, before it is worth looking which ones lie below its floor.
_SWEPT_BYTES_MIN = 256 * KIB


@dataclass(frozen=True, slots=True)
class KeptAnswer:
    """What was answered to a request, and the write number that must be published before it is said again."""

    client: bytes
    sequence: int
    floor: int
    row: bytes
    write_number: int
    result: RowResult
    is_cut: bool = False


class RepeatedAnswer(NamedTuple):
    """What was answered to the same request before. `is_cut`: it listed cells, which are not kept any more."""

    write_number: int
    result: RowResult
    is_cut: bool = False


class _Client:
    __slots__ = ("answers", "cell_bytes", "cut", "floor", "heard_ms", "name", "sweep_at", "sweep_at_bytes")

    def __init__(self, name: bytes) -> None:
        self.name = name
        self.answers: dict[int, tuple[bytes, int, RowResult]] = {}
        self.cut: set[int] = set()  # which of them have lost their cells
        self.floor = 0
        self.heard_ms = 0
        self.sweep_at = 32
        self.cell_bytes = 0
        self.sweep_at_bytes = _SWEPT_BYTES_MIN


class RequestIds:
    """The kept answers of one region. Thread-safe; the row lock orders calls about one row."""

    def __init__(
        self,
        clock: Clock,
        forgotten_after_ms: int,
        answers_per_client_max: int,
        cell_bytes_max: int = CELL_BYTES_KEPT_MAX,
    ) -> None:
        """At most twice `answers_per_client_max` are kept of a client, and as many are given to a manifest."""
        self._clock = clock
        self._forgotten_after_ms = forgotten_after_ms
        self._answers_per_client_max = answers_per_client_max
        self._cell_bytes_max = cell_bytes_max
        self._lock = threading.Lock()
        # Guarded by self._lock:
        self._clients: dict[bytes, _Client] = {}
        # Bytes of the cells of each answer that has some, the oldest first, and of all of them.
        self._with_cells: dict[tuple[bytes, int], int] = {}
        self._cell_bytes = 0
        self._repeated = 0

    def find(self, request: RequestId) -> RepeatedAnswer | None:
        """The answer to an earlier request with this id; None when there was none.

        Raises UnknownOutcomeError for an id below its client's floor.
        """
        with self._lock:
            client = self._clients.get(request.client)
            if client is None:
                return None
            if request.sequence < client.floor:
                raise UnknownOutcomeError(
                    f"request {request.sequence} is below its client's floor {client.floor}: its answer was forgotten, "
                    "so the change may or may not have happened; read the row"
                )
            kept = client.answers.get(request.sequence)
            if kept is None:
                return None
            self._repeated += 1
            return RepeatedAnswer(kept[1], kept[2], request.sequence in client.cut)

    def keep(self, request: RequestId, row: bytes, write_number: int, result: RowResult, now_ms: int) -> None:
        """Keeps the answer, and forgets what lies below the request's floor."""
        with self._lock:
            client = self._clients.get(request.client)
            if client is None:
                client = self._clients[request.client] = _Client(request.client)
            client.heard_ms = now_ms
            client.answers[request.sequence] = (row, write_number, result)
            if request.floor > client.floor:
                client.floor = request.floor
            if result.results or result.seen:
                self._count_cells(client, request.sequence, result)
            if len(client.answers) >= client.sweep_at:
                self._sweep(client)

    def _count_cells(self, client: _Client, sequence: int, result: RowResult) -> None:
        """Counts the answer's cells; drops what is below the client's floor, then the oldest, if that is too much."""
        self._uncount_cells(client, sequence)
        byte_count = bytes_of_cells(result)
        self._with_cells[client.name, sequence] = byte_count
        self._cell_bytes += byte_count
        client.cell_bytes += byte_count
        if client.cell_bytes >= client.sweep_at_bytes:
            self._sweep(client)
        while self._cell_bytes > self._cell_bytes_max and len(self._with_cells) > 1:
            self._cut(*next(iter(self._with_cells)))

    def _uncount_cells(self, client: _Client, sequence: int) -> None:
        byte_count = self._with_cells.pop((client.name, sequence), 0)
        self._cell_bytes -= byte_count
        client.cell_bytes -= byte_count

    def _cut(self, name: bytes, sequence: int) -> None:
        """Drops the cells of an answer."""
        client = self._clients[name]
        self._uncount_cells(client, sequence)
        row, write_number, result = client.answers[sequence]
        client.answers[sequence] = (row, write_number, result._replace(seen=(), results=()))
        client.cut.add(sequence)

    def _sweep(self, client: _Client) -> None:
        """Drops what is below the floor, and raises that past what is too old to be kept.

        Amortised, since the next sweep comes when the rest has doubled.
        """
        sequences = sorted(sequence for sequence in client.answers if sequence >= client.floor)
        if len(sequences) > self._answers_per_client_max:
            del sequences[: -self._answers_per_client_max]
            client.floor = sequences[0]
        dropped = client.answers
        client.answers = {sequence: dropped[sequence] for sequence in sequences}
        client.sweep_at = min(32 + 2 * len(client.answers), 2 * self._answers_per_client_max)
        if client.cell_bytes:
            for sequence in dropped.keys() - client.answers.keys():
                self._uncount_cells(client, sequence)
        client.sweep_at_bytes = _SWEPT_BYTES_MIN + 2 * client.cell_bytes
        if client.cut:
            client.cut.intersection_update(sequences)

    def kept(self, through_write_number: int) -> list[KeptAnswer]:
        """What a manifest must hold when the log forgets writes up to this number. Forgets silent clients."""
        horizon = self._clock.now_ms() - self._forgotten_after_ms
        answers: list[KeptAnswer] = []
        with self._lock:
            for client in [client for client in self._clients.values() if client.heard_ms < horizon]:
                for sequence in client.answers if client.cell_bytes else ():
                    self._uncount_cells(client, sequence)
                del self._clients[client.name]
            for name, client in self._clients.items():
                self._sweep(client)
                answers.extend(
                    KeptAnswer(name, sequence, client.floor, row, number, result, sequence in client.cut)
                    for sequence, (row, number, result) in client.answers.items()
                    if number <= through_write_number
                )
        return answers

    def restore(self, answers: Iterable[KeptAnswer]) -> None:
        """Takes over what a manifest held."""
        now_ms = self._clock.now_ms()
        for answer in sorted(answers, key=attrgetter("write_number")):
            request = RequestId(answer.client, answer.sequence, answer.floor)
            self.keep(request, answer.row, answer.write_number, answer.result, now_ms)
            if answer.is_cut:
                self._clients[answer.client].cut.add(answer.sequence)

    def statistics(self) -> RequestIdStatistics:
        with self._lock:
            kept = sum(len(client.answers) for client in self._clients.values())
            return RequestIdStatistics(len(self._clients), kept, self._cell_bytes, self._repeated)


@dataclass(frozen=True, slots=True)
class RequestIdStatistics:
    """Clients known, answers kept, bytes of the cells in these, and how many requests were answered from them."""

    clients: int
    kept_answers: int
    cell_bytes: int
    repeated: int
