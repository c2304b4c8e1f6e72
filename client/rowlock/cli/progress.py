"""The progress bar of long commands, and texts that are refreshed, by rich; imported only for a terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import TextIO

from rich.console import Console
from rich.live import Live
from rich.progress import (
    BarColumn,
    DownloadColumn,
    MofNCompleteColumn,
    ProgressColumn,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
)
from rich.progress import Progress as RichProgress
from rich.text import Text

from rowlock.cli.output import Progress


class ProgressBar(Progress):
    """A progress bar that is removed when the block ends. Used by one thread."""

    def __init__(self, stderr: TextIO, title: str, total: int | None, unit: str) -> None:
        amount: tuple[ProgressColumn, ...] = (MofNCompleteColumn(), TextColumn(unit))
        if unit == "bytes":
            amount = (DownloadColumn(binary_units=True),)
        self._bar = RichProgress(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(),
            *amount,
            TimeElapsedColumn(),
            console=Console(file=stderr),
            transient=True,
        )
        self._task = self._bar.add_task(title, total=total)

    def __enter__(self) -> ProgressBar:
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._bar.stop()

    def advance(self, count: int) -> None:
        self._bar.advance(self._task, count)

    def reach(self, count: int, total: int | None, title: str) -> None:
        self._bar.update(self._task, completed=count, total=total, description=title)


@contextmanager
def refreshing_text(stdout: TextIO) -> Iterator[Callable[[str], None]]:
    """Yields a function that shows a text in place of the one before. The last one stays."""
    with Live(console=Console(file=stdout), auto_refresh=False, vertical_overflow="visible") as live:
        yield lambda text: live.update(Text(text), refresh=True)
