"""The output of the demo: the steps, their figures, and the result of each comparison."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn


class Account:
    """Prints the output, and collects the differences. Used by one thread."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self.held_count = 0
        self.differences: list[str] = []

    def step(self, title: str) -> None:
        """Prints the title of a step."""
        self._console.print(f"\n[bold]{title}[/]", highlight=False, soft_wrap=True)

    def say(self, sentence: str) -> None:
        """Prints a line of what was done, with its figure."""
        self._console.print(f"  {sentence}", markup=False, highlight=False, soft_wrap=True)

    def compare(self, claim: str, found: object, expected: object) -> bool:
        """Compares two values, and prints the claim or the difference; returns whether they are equal."""
        if found == expected:
            return self.hold(claim)
        return self.differ(f"{claim}: found {_short(found)}, expected {_short(expected)}")

    def hold(self, claim: str) -> bool:
        """Counts and prints a comparison that held."""
        self.held_count += 1
        self._console.print(f"  [green]✓[/] {escape(claim)}", highlight=False, soft_wrap=True)
        return True

    def differ(self, what: str) -> bool:
        """Collects and prints a comparison that did not hold."""
        self.differences.append(what)
        self._console.print(f"  [red]✗[/] {escape(what)}", highlight=False, soft_wrap=True)
        return False

    def close(self, seconds: float) -> None:
        """Prints the summary."""
        if self.differences:
            self._console.print(f"\n[red bold]{len(self.differences)} comparisons did not hold:[/]", highlight=False)
            for difference in self.differences:
                self._console.print(f"  {difference}", markup=False, highlight=False, soft_wrap=True)
        else:
            self._console.print(
                f"\n[green bold]All {self.held_count} comparisons held[/], in {seconds:.0f} s.", highlight=False
            )

    @contextmanager
    def progress(self, title: str, total: int) -> Iterator[Bar]:
        """Shows a progress bar until exit, on a terminal only."""
        columns = (TextColumn("  {task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        with Progress(
            *columns, console=self._console, transient=True, disable=not self._console.is_terminal
        ) as progress:
            yield Bar(progress, progress.add_task(title, total=total))


class Bar:
    """One progress bar."""

    def __init__(self, progress: Progress, task: TaskID) -> None:
        self._progress = progress
        self._task = task

    def reach(self, done: int) -> None:
        """Shows that `done` items are done."""
        self._progress.update(self._task, completed=done)


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 200 else text[:200] + "..."
