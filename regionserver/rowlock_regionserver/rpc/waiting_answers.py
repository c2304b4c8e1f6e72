"""Encoded answers that wait for a client, on a gRPC stream or on a direct connection."""

from __future__ import annotations

import threading

from rowlock_regionserver.ledger import Account
from rowlock_regionserver.memory_plan import ANSWER_COST


class WaitingAnswers:
    """The answers of one client, which concatenate to one message. Used on the event loop unless noted."""

    __slots__ = ("_account", "_answers", "_reserved_bytes", "_reserved_lock", "byte_count")

    def __init__(self, account: Account) -> None:
        """account: counts what is reserved. What waits is counted by the caller."""
        self._account = account
        self._answers: list[bytes] = []
        self.byte_count = 0  # of the answers that wait; 0: there are none, as none is empty
        self._reserved_lock = threading.Lock()
        # Guarded by self._reserved_lock:
        self._reserved_bytes = 0

    @property
    def bytes_with_reserved(self) -> int:
        """The bytes that wait or are reserved. From any thread."""
        return self.byte_count + self._reserved_bytes

    def reserve(self, byte_count: int, *, must_fit: bool) -> bool:
        """Counts an answer that will be added. From any thread.

        With `must_fit`, returns False if all answers together would exceed their bound.
        """
        if not must_fit:
            self._account.add(ANSWER_COST * byte_count)
        elif not self._account.try_take(ANSWER_COST * byte_count):
            return False
        with self._reserved_lock:
            self._reserved_bytes += byte_count
        return True

    def release(self, byte_count: int) -> None:
        """Cancels a reservation, because the answer is added next."""
        with self._reserved_lock:
            self._reserved_bytes -= byte_count
        self._account.give(ANSWER_COST * byte_count)

    def add(self, answer: bytes) -> None:
        """Appends an answer to those that wait."""
        self._answers.append(answer)
        self.byte_count += len(answer)

    def next_message(self, bytes_max: int) -> bytes:
        """Removes the first answers, at least one and as many as `bytes_max` allows, and returns them joined."""
        answers = self._answers
        if self.byte_count <= bytes_max:
            self.clear()
            return answers[0] if len(answers) == 1 else b"".join(answers)
        count, byte_count = 0, 0
        while count < len(answers) and (not count or byte_count + len(answers[count]) <= bytes_max):
            byte_count += len(answers[count])
            count += 1
        self._answers = answers[count:]
        self.byte_count -= byte_count
        return b"".join(answers[:count])

    def clear(self) -> None:
        """Drops what waits."""
        self._answers = []
        self.byte_count = 0
