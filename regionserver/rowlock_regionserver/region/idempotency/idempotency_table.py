"""The idempotency table: the server applies a change once, however often a client sends it, with the same answer.

A request id is (client, sequence), and belongs to one row or to one bulk batch. Each request also names its client's
floor, the lowest sequence that the client still waits for. The region forgets answers below the floor, and answers a
request below it with UnknownOutcomeError. Further bounds:

- The region forgets a client that it has not heard of for an hour, by the monotonic clock; a restart begins a new hour.
- If a client never raises its floor, or waits long for one change while it makes very many, the region saves only the
  newest answers, as if the floor were just below them.
- An answer may list large cells: the new cells of appends, and the cells that a condition compared. What a procedure
  returns may be large, too. A region saves the newest SAVED_CELL_BYTES_MAX of them. Older answers are cut: the region
  knows that the change was made, but not the cells.
- All regions together save `request_ids_bytes_max` (idempotency_memory.py). Beyond that they forget the clients that
  have been silent for longest.

When a client sends a change again, it says how long ago it first sent it. If that was before the newest answer that the
region has forgotten, and the id is not found, the change may have been made: UnknownOutcomeError.

An answer is saved with the write number of its change, which must be published before the answer is sent again. The
log has each answer with its change, and a flush saves it (manifest_answers.py). A definite refusal and an unmet
condition change nothing and are not logged: a restart forgets them, and any copy of the request that still waited. A
split or a merge forgets them too.
"""

from __future__ import annotations

import itertools
import threading
from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator, Sequence
from operator import attrgetter

from rowlock_regionserver.clock import Clock
from rowlock_regionserver.config import MIB
from rowlock_regionserver.errors import InvalidRequestError, UnknownOutcomeError
from rowlock_regionserver.operations import RequestId, RowOutcome, RowResult
from rowlock_regionserver.region.idempotency.answer import (
    IS_BULK,
    IS_CUT,
    LARGE_BYTES,
    MAY_BE_BULK,
    Answer,
    RepeatedAnswer,
    SavedAnswer,
    answer_of,
    changed_something,
    flags_of,
    new_answer,
    outcome_of,
    put_answers,
    saved_answer,
    without_cells,
)
from rowlock_regionserver.region.idempotency.answer_size import bytes_of_cells
from rowlock_regionserver.region.idempotency.idempotency_memory import IdempotencyMemory
from rowlock_regionserver.region.idempotency.idempotency_statistics import IdempotencyStatistics
from rowlock_regionserver.region.idempotency.request_clients import CLIENT_BYTES, Client, Clients

# Bytes of the large cells in the saved answers of one region.
SAVED_CELL_BYTES_MAX = 16 * MIB
# How long a change may be in flight.
IN_FLIGHT_S_MAX = 30.0

# How many clients or answers are processed under one hold of the lock.
_AT_ONCE = 256
# How many answers `saved` yields in one list.
_LISTED_AT_ONCE = 1024


class IdempotencyTable:
    """The saved answers of one region. Thread-safe; the row lock orders calls about one row."""

    def __init__(
        self,
        clock: Clock,
        memory: IdempotencyMemory,
        forgotten_after_ms: int,
        answers_per_client_max: int,
        cell_bytes_max: int = SAVED_CELL_BYTES_MAX,
    ) -> None:
        self._clock = clock
        self._memory = memory
        self._forgotten_after_s = forgotten_after_ms / 1000
        self._answers_per_client_max = answers_per_client_max
        self._cell_bytes_max = cell_bytes_max
        self._lock = threading.Lock()
        # Guarded by self._lock:
        self._clients = Clients()
        self._bytes_held = 0
        self._answer_count = 0
        # Bytes of the cells of each answer with large cells, the oldest first, and their sum.
        self._with_cells: dict[tuple[bytes, int], int] = {}
        self._cell_bytes = 0
        self._repeated = 0
        # On the monotonic clock: when the region last heard of a client that it has since forgotten.
        self._forgotten_until = float("-inf")
        memory.register(self)

    @property
    def bytes_held(self) -> int:
        return self._bytes_held

    def find(self, request: RequestId, row: bytes | None, *, is_bulk: bool = False) -> RepeatedAnswer | None:
        """Returns the answer to an earlier request with this id; None if there was none.

        Raises UnknownOutcomeError if the answer was or may have been forgotten, and InvalidRequestError if the id
        belongs to another change. `row`: the first one of a bulk batch; None if it is not known.
        """
        sequence = request.sequence
        with self._lock:
            client = self._clients.get(request.client)
            answer = None
            if client is not None:
                if sequence < client.floor:
                    raise _forgotten(sequence, f"is below its client's floor {client.floor}: its answer was forgotten")
                answer = answer_of(client.answers, sequence)
            if answer is None:
                if request.age_ms and self._may_be_forgotten(request.age_ms):
                    raise _forgotten(sequence, f"was first sent {request.age_ms} ms ago: its answer may be forgotten")
                return None
            self._repeated += 1
        _, its_row, write_number, _, flags, _ = answer
        is_its_row = row is None or its_row is None or row == its_row
        if not is_its_row or (is_bulk != bool(flags & IS_BULK) and not flags & MAY_BE_BULK):
            raise InvalidRequestError(
                f"request {sequence} of this client was already answered for another row or bulk batch; give each "
                "change a sequence of its own",
                row=row or b"",
            )
        return RepeatedAnswer(write_number, outcome_of(answer), bool(flags & IS_CUT))

    def are_new(self, client_id: bytes, sequences: Sequence[int]) -> bool:
        """Returns whether `find` would return None for each of these ids, of requests that were not sent before.

        O(ids) if the client has made later changes, else O(1) but for their minimum.
        """
        with self._lock:
            client = self._clients.get(client_id)
            if client is None:
                return True
            lowest, answers = min(sequences), client.answers
            if lowest < client.floor:
                return False
            if not answers or lowest > answers[-1][0]:
                return True
            return all(answer_of(answers, sequence) is None for sequence in sequences)

    def _may_be_forgotten(self, age_ms: int) -> bool:
        """Whether the region may have had an answer to a request of this age."""
        return self._clock.monotonic() - age_ms / 1000 - IN_FLIGHT_S_MAX <= self._forgotten_until

    def save(
        self, request: RequestId, row: bytes | None, write_number: int, outcome: RowOutcome, *, is_bulk: bool = False
    ) -> None:
        """Saves the answer, and forgets answers below the request's floor. `row`: as for `find`."""
        if self._save(request, row, write_number, outcome, IS_BULK if is_bulk else 0):
            self._memory.free_excess()

    def save_each(
        self,
        client_id: bytes,
        floor: int,
        rows: Sequence[bytes],
        sequences: Sequence[int],
        write_number: int,
        stamp: int,
    ) -> None:
        """Saves for each row's id, distinct and new, that one write made its put with this stamp; else as `save`."""
        answers = put_answers(sequences, rows, write_number, stamp)
        now = self._clock.monotonic()
        with self._lock:
            before = self._bytes_held
            client = self._client(client_id, now)
            if not client.answers or answers[0][0] > client.answers[-1][0]:
                client.answers += answers
                self._answer_count += len(answers)
                self._bytes_held += sum([answer[5] for answer in answers])
            else:
                for answer in answers:
                    self._add(client, answer)
            self._forget_answers(client, floor)
            grown = self._bytes_held - before
        if grown:
            self._memory.add(grown)
        if grown > 0:
            self._memory.free_excess()

    def _client(self, name: bytes, now: float) -> Client:
        """Returns the client, which is heard of now."""
        client = self._clients.get(name)
        if client is None:
            self._forget_silent(_AT_ONCE)
            client = self._clients.add(name, now)
            self._bytes_held += CLIENT_BYTES
        client.last_heard = now
        return client

    def _forget_answers(self, client: Client, floor: int) -> None:
        """Drops the client's answers below the floor, and the oldest of very many."""
        if floor > client.floor:
            self._raise_floor(client, floor)
        if len(client.answers) > 2 * self._answers_per_client_max:
            self._raise_floor(client, client.answers[-self._answers_per_client_max][0])

    def _save(self, request: RequestId, row: bytes | None, write_number: int, outcome: RowOutcome, flags: int) -> bool:
        """Saves the answer. Returns whether the table holds more bytes than before."""
        name, sequence, floor = request[:3]
        answer = new_answer(sequence, row, write_number, outcome, flags)
        now = self._clock.monotonic()
        with self._lock:
            before = self._bytes_held
            client = self._client(name, now)
            if self._replaces_only_answer(client, answer, floor):
                client.floor = floor
                self._bytes_held += answer[5] - client.answers[0][5]
                client.answers[0] = answer
            else:
                self._add(client, answer)
            self._forget_answers(client, floor)
            grown = self._bytes_held - before
        if grown:
            self._memory.add(grown)
        return grown > 0

    def _replaces_only_answer(self, client: Client, answer: Answer, floor: int) -> bool:
        """Whether the answer replaces the client's only one, which is below the floor, and neither has large cells.

        This is the fast path for a client that makes one change at a time.
        """
        answers = client.answers
        return (
            len(answers) == 1
            and answers[0][0] < floor <= answer[0]
            and answers[0][5] < LARGE_BYTES
            and answer[5] < LARGE_BYTES
        )

    def _add(self, client: Client, answer: Answer) -> None:
        answers = client.answers
        if not answers or answer[0] > answers[-1][0]:
            answers.append(answer)
        elif answer_of(answers, answer[0]) is None:
            insort(answers, answer)
        else:
            return
        self._answer_count += 1
        self._bytes_held += answer[5]
        outcome = answer[3]
        if answer[5] >= LARGE_BYTES and isinstance(outcome, RowResult) and bytes_of_cells(outcome):
            cell_bytes = bytes_of_cells(outcome)
            self._with_cells[client.name, answer[0]] = cell_bytes
            self._cell_bytes += cell_bytes
            while self._cell_bytes > self._cell_bytes_max and len(self._with_cells) > 1:
                self._cut_oldest()

    def _cut_oldest(self) -> None:
        """Drops the cells of the oldest answer with large cells."""
        name, sequence = next(iter(self._with_cells))
        client = self._clients.get(name)
        assert client is not None, "cells of a client that was forgotten"
        answers = client.answers
        place = bisect_left(answers, (sequence,))
        uncut = answers[place]
        cut = answers[place] = without_cells(uncut)
        self._bytes_held += cut[5] - uncut[5]
        self._cell_bytes -= self._with_cells.pop((name, sequence))

    def _raise_floor(self, client: Client, floor: int) -> None:
        """Raises the client's floor, and drops its answers below."""
        client.floor = floor
        answers = client.answers
        if answers and answers[0][0] < floor:
            self._drop(client, bisect_left(answers, (floor,)))

    def _drop(self, client: Client, count: int) -> None:
        """Drops the client's `count` lowest answers."""
        answers = client.answers
        self._answer_count -= count
        for place in range(count):
            self._bytes_held -= answers[place][5]
            if self._with_cells:
                self._cell_bytes -= self._with_cells.pop((client.name, answers[place][0]), 0)
        del answers[:count]

    def _forget_silent(self, count_max: int) -> int:
        """Forgets up to `count_max` clients that have been silent for too long. Returns their number."""
        horizon = self._clock.monotonic() - self._forgotten_after_s
        for count in range(count_max):
            oldest = self._clients.oldest()
            if oldest is None or oldest.last_heard >= horizon:
                return count
            self._forget(oldest)
        return count_max

    def _forget(self, oldest: Client) -> None:
        self._drop(oldest, len(oldest.answers))
        self._clients.forget(oldest)
        self._bytes_held -= CLIENT_BYTES
        self._forgotten_until = max(self._forgotten_until, oldest.last_heard)

    def free(self, byte_count: int) -> bool:
        """Frees about `byte_count` bytes of answers: large cells first, then the clients that were silent for longest.

        Returns False if it could free nothing.
        """
        with self._lock:
            before = self._bytes_held
            while before - self._bytes_held < byte_count and (oldest := self._clients.oldest()) is not None:
                if 2 * self._cell_bytes > self._bytes_held:
                    self._cut_oldest()
                elif len(oldest.answers) > _AT_ONCE:
                    self._raise_floor(oldest, oldest.answers[_AT_ONCE][0])
                elif len(self._clients) > 1:
                    self._forget(oldest)
                elif len(oldest.answers) > 1:
                    self._raise_floor(oldest, oldest.answers[len(oldest.answers) // 2][0])
                else:
                    break
            freed = before - self._bytes_held
        self._memory.add(-freed)
        return freed > 0

    def saved(self, after: int, through: int) -> Iterator[list[SavedAnswer]]:
        """Yields lists of the answers of writes after `after` up to `through`, for a manifest.

        The log drops the records of these writes after the manifest is durable. Holds no lock between lists. Forgets
        silent clients first.
        """
        while self._forgotten_silent() == _AT_ONCE:
            pass
        with self._lock:
            names = iter(self._clients.names())
        while some := list(itertools.islice(names, _AT_ONCE)):
            chosen = (
                saved_answer(name, floor, answer)
                for name, floor, answers in self._copied(some)
                for answer in answers
                if after < answer[2] <= through and changed_something(answer)
            )
            while chunk := list(itertools.islice(chosen, _LISTED_AT_ONCE)):
                yield chunk

    def _forgotten_silent(self) -> int:
        """Forgets up to _AT_ONCE silent clients, and counts the freed bytes. Returns their number."""
        with self._lock:
            before = self._bytes_held
            count = self._forget_silent(_AT_ONCE)
            freed = before - self._bytes_held
        self._memory.add(-freed)
        return count

    def _copied(self, names: Sequence[bytes]) -> list[tuple[bytes, int, list[Answer]]]:
        """Returns (name, floor, answers) of those clients that are still known."""
        with self._lock:
            before = self._bytes_held
            clients = [client for name in names if (client := self._clients.get(name)) is not None]
            for client in clients:
                if len(client.answers) > self._answers_per_client_max:
                    self._raise_floor(client, client.answers[-self._answers_per_client_max][0])
            copied = [(client.name, client.floor, client.answers.copy()) for client in clients]
            freed = before - self._bytes_held
        self._memory.add(-freed)
        return copied

    def forgotten_ms_ago(self) -> int | None:
        """Returns how long ago the region last heard of a client that it has since forgotten; None if of none."""
        with self._lock:
            until = self._forgotten_until
        return None if until == float("-inf") else int((self._clock.monotonic() - until) * 1000)

    def restore(self, answers: Iterable[SavedAnswer], forgotten_ms_ago: int | None = None) -> None:
        """Loads the answers of a manifest, as if the region had heard of each client just now."""
        if forgotten_ms_ago is not None:
            self._forgotten_until = self._clock.monotonic() - forgotten_ms_ago / 1000
        for answer in sorted(answers, key=attrgetter("write_number")):
            request = RequestId(answer.client, answer.sequence, answer.floor)
            self._save(request, answer.row, answer.write_number, answer.result, flags_of(answer))
            self._memory.free_excess()

    def discard(self) -> None:
        """Forgets everything, when the region is no longer served."""
        self._memory.unregister(self)
        with self._lock:
            self._clients.clear()
            self._with_cells.clear()
            freed, self._bytes_held, self._cell_bytes, self._answer_count = self._bytes_held, 0, 0, 0
        self._memory.add(-freed)

    def statistics(self) -> IdempotencyStatistics:
        with self._lock:
            return IdempotencyStatistics(
                len(self._clients), self._answer_count, self._cell_bytes, self._bytes_held, self._repeated
            )


def _forgotten(sequence: int, why: str) -> UnknownOutcomeError:
    return UnknownOutcomeError(f"request {sequence} {why}, so the change may or may not have happened; read the row")
