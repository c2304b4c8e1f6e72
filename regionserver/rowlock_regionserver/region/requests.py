"""Request ids: a change that is sent again is made once, and answered as the first time.

A request id is (client, sequence). With each request the client names its floor, the lowest sequence it still waits
for; below it the answers are forgotten, so that what is kept is bounded by what is in flight. An id below the floor
can't be judged and is answered with UnknownOutcomeError. A client that was not heard of for an hour is forgotten. Of
one that never raises its floor, or waits long for one change while it makes very many, only the newest answers are
kept.

The answer is kept with the write number that made it: it must not be repeated before that number is published.
Answers are in the log with their change, and move to the manifest at flush. A condition's "no" changes nothing and is
in no log: a restart forgets it, and with it whatever of that request was still waiting.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from dataclasses import dataclass

from rowlock_regionserver.clock import Clock
from rowlock_regionserver.errors import UnknownOutcomeError
from rowlock_regionserver.operations import RequestId, RowResult


@dataclass(frozen=True, slots=True)
class KeptAnswer:
    """What was answered to a request, and the write number that must be published before it is said again."""

    client: bytes
    sequence: int
    floor: int
    row: bytes
    write_number: int
    result: RowResult


class _Client:
    __slots__ = ("answers", "floor", "heard_ms", "sweep_at")

    def __init__(self) -> None:
        self.answers: dict[int, tuple[bytes, int, RowResult]] = {}
        self.floor = 0
        self.heard_ms = 0
        self.sweep_at = 32


class RequestIds:
    """The kept answers of one region. Thread-safe; the row lock orders calls about one row."""

    def __init__(self, clock: Clock, forgotten_after_ms: int, answers_per_client_max: int) -> None:
        """At most twice `answers_per_client_max` are kept of a client, and as many are given to a manifest."""
        self._clock = clock
        self._forgotten_after_ms = forgotten_after_ms
        self._answers_per_client_max = answers_per_client_max
        self._lock = threading.Lock()
        # Guarded by self._lock:
        self._clients: dict[bytes, _Client] = {}
        self._repeated = 0

    def find(self, request: RequestId) -> tuple[int, RowResult] | None:
        """The write number and answer of an earlier request with this id; None when there was none.

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
            return kept[1], kept[2]

    def keep(self, request: RequestId, row: bytes, write_number: int, result: RowResult, now_ms: int) -> None:
        """Keeps the answer, and forgets what lies below the request's floor."""
        with self._lock:
            client = self._clients.get(request.client)
            if client is None:
                client = self._clients[request.client] = _Client()
            client.heard_ms = now_ms
            client.answers[request.sequence] = (row, write_number, result)
            if request.floor > client.floor:
                client.floor = request.floor
            if len(client.answers) >= client.sweep_at:
                self._sweep(client)

    def _sweep(self, client: _Client) -> None:
        """Drops what is below the floor, and raises that past what is too old to be kept.

        Amortised, since the next sweep comes when the rest has doubled.
        """
        sequences = sorted(sequence for sequence in client.answers if sequence >= client.floor)
        if len(sequences) > self._answers_per_client_max:
            del sequences[: -self._answers_per_client_max]
            client.floor = sequences[0]
        client.answers = {sequence: client.answers[sequence] for sequence in sequences}
        client.sweep_at = min(32 + 2 * len(client.answers), 2 * self._answers_per_client_max)

    def kept(self, through_write_number: int) -> list[KeptAnswer]:
        """What a manifest must hold when the log forgets writes up to this number. Forgets silent clients."""
        horizon = self._clock.now_ms() - self._forgotten_after_ms
        answers: list[KeptAnswer] = []
        with self._lock:
            for name in [name for name, client in self._clients.items() if client.heard_ms < horizon]:
                del self._clients[name]
            for name, client in self._clients.items():
                self._sweep(client)
                answers.extend(
                    KeptAnswer(name, sequence, client.floor, row, number, result)
                    for sequence, (row, number, result) in client.answers.items()
                    if number <= through_write_number
                )
        return answers

    def restore(self, answers: Iterable[KeptAnswer]) -> None:
        """Takes over what a manifest held."""
        now_ms = self._clock.now_ms()
        for answer in answers:
            request = RequestId(answer.client, answer.sequence, answer.floor)
            self.keep(request, answer.row, answer.write_number, answer.result, now_ms)

    def statistics(self) -> RequestIdStatistics:
        with self._lock:
            kept = sum(len(client.answers) for client in self._clients.values())
            return RequestIdStatistics(len(self._clients), kept, self._repeated)


@dataclass(frozen=True, slots=True)
class RequestIdStatistics:
    """Clients known, answers kept, and how many requests were answered from them."""

    clients: int
    kept_answers: int
    repeated: int
