"""The outbox of a stream: answers collect here while the previous message is being written.

The ledger counts an answer from its arrival here until gRPC has written it, which a client that does not read can delay
indefinitely. It counts the bytes twice, because gRPC copies what it writes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from rowlock_regionserver.ledger import Account
from rowlock_regionserver.memory_plan import ANSWER_COST
from rowlock_regionserver.rpc.waiting_answers import WaitingAnswers


class Outbox:
    """The encoded answers of one stream, which concatenate to one message. Used on the event loop unless noted.

    A caller that adds an answer then calls `flush` or `flush_soon`. One writer at a time sends all waiting answers, in
    as few messages as `message_bytes_max` allows.
    """

    def __init__(self, write: Callable[[bytes], Awaitable[None]], message_bytes_max: int, account: Account) -> None:
        self._write = write
        self._message_bytes_max = message_bytes_max
        self._account = account
        self.answers = WaitingAnswers(account)
        self._writing_bytes = 0
        self._is_writing = False
        self._is_writer_due = False  # a writer task was created, and has not begun
        self._is_closed = False
        self._task: asyncio.Task[None] | None = None
        self._written = asyncio.Event()

    @property
    def unread_bytes(self) -> int:
        """The bytes that wait, are being written, or are reserved. From any thread."""
        return self.answers.bytes_with_reserved + self._writing_bytes

    @property
    def is_empty(self) -> bool:
        """Whether everything was written, or the stream is closed."""
        return self._is_closed or not (self.answers.byte_count or self._is_writing)

    def add(self, answer: bytes) -> None:
        """Appends the answer to those that wait, or drops it if the stream is closed."""
        if not self._is_closed:
            self._account.add(ANSWER_COST * len(answer))
            self.answers.add(answer)

    async def flush(self) -> None:
        """Writes all waiting answers. If another writer is active, returns, because that one writes them too."""
        if self._is_writing or not self.answers.byte_count:
            return
        self._is_writing = True
        try:
            while self.answers.byte_count:
                await self._write_one(self.answers.next_message(self._message_bytes_max))
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
        """Schedules a flush from a callback: one new task writes all answers that are added before it begins."""
        if not self._is_writing and not self._is_writer_due and self.answers.byte_count:
            self._is_writer_due = True
            self._task = asyncio.get_running_loop().create_task(self._flush_quietly())

    async def _flush_quietly(self) -> None:
        self._is_writer_due = False
        try:
            await self.flush()
        except Exception:
            # The client is gone. The stream's reader detects that too.
            self.close()

    async def written(self) -> None:
        """Waits until everything was written or the stream is closed."""
        while not self.is_empty:
            self._written.clear()
            await self._written.wait()

    def close(self) -> None:
        """Drops the waiting answers and all later ones."""
        self._is_closed = True
        self._account.give(ANSWER_COST * self.answers.byte_count)
        self.answers.clear()
        self._written.set()
