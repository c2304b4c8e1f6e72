"""What is being made and not there yet: used without `await`, it says so."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, NoReturn


class Unfinished:
    """`await` it, or use it with `async with`; whatever else is done with it raises an error that says this."""

    what: ClassVar[str]
    """What it is, for the message."""

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
