"""What a stream has to send: answers gather here while the message before is being written.

An answer is counted in the ledger from the moment it is there until gRPC has written it, which may take as long as the
client does not read: twice, since gRPC copies what it writes.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable

from rowlock_regionserver.ledger import Account
from rowlock_regionserver.memory_plan import ANSWER_COST


class Outbox:
    """The serialized answers of one stream; joined, they are one message. Used on the event loop, mostly.

    Whoever adds an answer calls `flush` or `flush_soon`; one writer at a time sends all there is, as few messages as
    `message_bytes_max` allows.
    """

    def __init__(self, write: Callable[[bytes], Awaitable[None]], message_bytes_max: int, account: Account) -> None:
        self._write = write
        self._message_bytes_max = message_bytes_max
        self._account = account
        self._answers: list[bytes] = []
        self._waiting_bytes = 0
        self._writing_bytes = 0
        self._reserved_lock = threading.Lock()
        # Guarded by self._reserved_lock:
        self._reserved_bytes = 0
        self._is_writing = False
        self._is_writer_due = False  # a task was made for it, and has not begun
        self._is_closed = False
        self._task: asyncio.Task[None] | None = None
        self._written = asyncio.Event()

    @property
    def unread_bytes(self) -> int:
        """Bytes that wait to be written, are being written, and are reserved. From any thread."""
        return self._waiting_bytes + self._writing_bytes + self._reserved_bytes

    def reserve(self, byte_count: int, *, must_fit: bool) -> bool:
        """Counts an answer that will be added. False, with `must_fit`: all answers together leave no room for it.

        From any thread.
        """
        if not must_fit:
            self._account.add(ANSWER_COST * byte_count)
        elif not self._account.try_take(ANSWER_COST * byte_count):
            return False
        with self._reserved_lock:
            self._reserved_bytes += byte_count
        return True

    def release(self, byte_count: int) -> None:
        """Takes a reservation back, because the answer is added next."""
        with self._reserved_lock:
            self._reserved_bytes -= byte_count
        self._account.give(ANSWER_COST * byte_count)

    @property
    def is_empty(self) -> bool:
        """Everything was written, or the stream is gone."""
        return self._is_closed or not (self._answers or self._is_writing)

    def add(self, answer: bytes) -> None:
        """Puts the answer behind those that wait. Dropped when the stream is gone."""
        if not self._is_closed:
            self._account.add(ANSWER_COST * len(answer))
            self._answers.append(answer)
            self._waiting_bytes += len(answer)

    async def flush(self) -> None:
        """Writes what waits, unless somebody is at it, who will then write this too."""
        if self._is_writing or not self._answers:
            return
        self._is_writing = True
        try:
            while self._answers:
                await self._write_one(self._next_message())
        except BaseException:
            self.close()
            raise
        finally:
            self._is_writing = False
            if self.is_empty:
                self._written.set()

    async def _write_one(self, message: bytes) -> None:
        self._writing_bytes = len(message)
        try:
            await self._write(message)
        finally:
            self._account.give(ANSWER_COST * self._writing_bytes)
            self._writing_bytes = 0

    def flush_soon(self) -> None:
        """The same from a callback: a task of its own writes, one for all that is added before it begins."""
        if not self._is_writing and not self._is_writer_due and self._answers:
            self._is_writer_due = True
            self._task = asyncio.get_running_loop().create_task(self._flush_quietly())

    async def _flush_quietly(self) -> None:
        self._is_writer_due = False
        try:
            await self.flush()
        except Exception:
            # The client is gone, which the stream's reader learns by itself.
            self.close()

    async def written(self) -> None:
        """Waits until everything was written or the stream is gone."""
        while not self.is_empty:
            self._written.clear()
            await self._written.wait()

    def close(self) -> None:
        """Drops what waits and whatever comes."""
        self._is_closed = True
        self._answers.clear()
        self._account.give(ANSWER_COST * self._waiting_bytes)
        self._waiting_bytes = 0
        self._written.set()

    def _next_message(self) -> bytes:
        answers = self._answers
        if self._waiting_bytes <= self._message_bytes_max:
            self._answers = []
            self._waiting_bytes = 0
            return answers[0] if len(answers) == 1 else b"".join(answers)
        count, byte_count = 0, 0
        while count < len(answers) and (not count or byte_count + len(answers[count]) <= self._message_bytes_max):
            byte_count += len(answers[count])
            count += 1
        self._answers = answers[count:]
        self._waiting_bytes -= byte_count
        return b"".join(answers[:count])
