"""What is being made and not there yet: `await` it, or use it with `async with`; used otherwise, it says so."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator
from types import TracebackType
from typing import TYPE_CHECKING, ClassVar, Generic, NoReturn, Protocol, TypeVar

from rowlock.aio.snapshot import Snapshot


class Ends(Protocol):
    """What the end of an `async with` block ends."""

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


Made = TypeVar("Made", bound=Ends)


class Unfinished(Generic[Made]):
    """`await` it, or use it with `async with`; whatever else is done with it raises an error that says this."""

    what: ClassVar[str]
    """What it is, for the message."""

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

    if not TYPE_CHECKING:  # a type checker would believe that it has every attribute

        def __getattr__(self, name: str) -> NoReturn:
            raise AttributeError(f"{self._advice()} ({name!r} was asked of it)", name=name, obj=self)

        def __enter__(self) -> NoReturn:
            raise TypeError(self._advice())

        def __exit__(self, *_: object) -> None:
            """Never reached; Python looks for it before it enters."""

    def __repr__(self) -> str:
        return f"<{self._advice()}>"

    def _advice(self) -> str:
        return f"{self.what}: await it, or use it with 'async with'"


class MakingSnapshot(Unfinished[Snapshot]):
    """A snapshot being made: `await` it, or use it with `async with`, which ends the snapshot."""

    what = "a snapshot that is being made"
