"""Objects in the making: `await` one, or use it with `async with`. Any other use raises an error that says so."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator
from types import TracebackType
from typing import TYPE_CHECKING, ClassVar, Generic, NoReturn, Protocol, TypeVar

from rowlock._core.typed_rows import Row
from rowlock.aio.bulk_write import BulkWrite
from rowlock.aio.lock import Lock
from rowlock.aio.session import Session
from rowlock.aio.snapshot import Snapshot
from rowlock.aio.typed_bulk_write import TypedBulkWrite


class Ends(Protocol):
    """An object with an `__aexit__`."""

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


Made = TypeVar("Made", bound=Ends)


class Unfinished(Generic[Made]):
    """An object in the making: `await` it, or use it with `async with`. Any other use raises an error that says so."""

    what: ClassVar[str]
    """Names the object in error messages."""

    def __init__(self, make: Callable[[], Awaitable[Made]]) -> None:
        self._make = make
        self._made: Made | None = None

    def __await__(self) -> Generator[object, None, Made]:
        return self._make().__await__()

    async def __aenter__(self) -> Made:
        self._made = await self._make()
        return self._made

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._made is not None:
            await self._made.__aexit__(kind, error, trace)

    if not TYPE_CHECKING:  # With __getattr__, a type checker would accept every attribute.

        def __getattr__(self, name: str) -> NoReturn:
            raise AttributeError(f"{self._advice()} (it has no attribute {name!r})", name=name, obj=self)

        def __enter__(self) -> NoReturn:
            raise TypeError(self._advice())

        def __exit__(self, *_: object) -> None:
            """Never called. Without it, `with` would raise before it calls __enter__."""

    def __repr__(self) -> str:
        return f"<{self._advice()}>"

    def _advice(self) -> str:
        return f"{self.what}: await it, or use it with 'async with'"


class MakingSnapshot(Unfinished[Snapshot]):
    """A snapshot in the making: `await` it, or use it with `async with`, which ends the snapshot."""

    what = "a snapshot that is being made"


class MakingSession(Unfinished[Session]):
    """A session in the making: `await` it, or use it with `async with`, which ends the session."""

    what = "a session that is being opened"


class MakingLock(Unfinished[Lock]):
    """A lock that is being taken: `await` it, or use it with `async with`, which releases the lock."""

    what = "a lock that is being taken"


class MakingBulkWrite(Unfinished[BulkWrite]):
    """A bulk write that is being opened: `await` it, or use it with `async with`, which commits or aborts it."""

    what = "a bulk write that is being opened"


class MakingTypedBulkWrite(Unfinished[TypedBulkWrite[Row]]):
    """A bulk write of typed rows that is being opened: see MakingBulkWrite."""

    what = "a bulk write that is being opened"
