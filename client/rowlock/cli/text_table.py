"""Tables on a terminal, by rich; imported only for a terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TextIO

from rich import box
from rich.console import Console
from rich.live import Live
from rich.table import Column, Table
from rich.text import Text


def text_table(heading: Sequence[str], lines: Sequence[Sequence[str]]) -> Table:
    """Returns a table. Wide values wrap: a truncated value or name is useless."""
    table = Table(*(Column(name, overflow="fold") for name in heading), box=box.SIMPLE_HEAD)
    for fields in lines:
        table.add_row(*map(Text, fields))
    return table


@contextmanager
def refreshing_table(stdout: TextIO) -> Iterator[Callable[[Sequence[str], Sequence[Sequence[str]]], None]]:
    """Yields a function that shows a table in place of the one before. The last one stays."""
    with Live(console=Console(file=stdout), auto_refresh=False, vertical_overflow="visible") as live:

        def show(heading: Sequence[str], lines: Sequence[Sequence[str]]) -> None:
            live.update(text_table(heading, lines), refresh=True)

        yield show
