"""The output of the demo: its steps, their speed, and the result of each comparison."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn


class Output:
    """Prints lines, and collects the differences. Used by one thread."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self.passed_count = 0
        self.differences: list[str] = []

    def introduction(self, sentence: str) -> None:
        """Prints what is about to happen."""
        self._console.print(sentence, markup=False, highlight=False)

    def headline(self, subject: str) -> str:
        """Returns one sentence: what the comparisons so far prove about the subject."""
        if self.differences:
            return (
                f"{subject}: {len(self.differences)} of {self.passed_count + len(self.differences)} comparisons failed"
            )
        return f"{subject}: no write lost, nothing counted twice"

    def step(self, title: str) -> None:
        """Prints the title of a step."""
        self._console.print(f"\n[bold]{title}[/]", highlight=False, soft_wrap=True)

    def line(self, sentence: str) -> None:
        """Prints a line about the current step."""
        self._console.print(f"  {sentence}", markup=False, highlight=False, soft_wrap=True)

    def compare(self, claim: str, found: object, expected: object) -> bool:
        """Compares the two and prints the result; `claim` is true if they are equal. Returns whether they are."""
        if found == expected:
            return self.passed(claim)
        return self.failed(f"{claim}: found {_short(found)}, expected {_short(expected)}")

    def passed(self, claim: str) -> bool:
        """Prints and counts a comparison that passed. Returns True."""
        self.passed_count += 1
        self._console.print(f"  [green]✓[/] {escape(claim)}", highlight=False, soft_wrap=True)
        return True

    def failed(self, difference: str) -> bool:
        """Prints and collects a difference. Returns False."""
        self.differences.append(difference)
        self._console.print(f"  [red]✗[/] {escape(difference)}", highlight=False, soft_wrap=True)
        return False

    def close(self, seconds: float) -> None:
        """Prints the summary."""
        if self.differences:
            self._console.print(f"\n[red bold]{len(self.differences)} comparisons failed:[/]", highlight=False)
            for difference in self.differences:
                self._console.print(f"  {difference}", markup=False, highlight=False, soft_wrap=True)
        else:
            self._console.print(
                f"\n[green bold]All {self.passed_count} comparisons passed[/], in {seconds:.0f} s.", highlight=False
            )

    @contextmanager
    def progress(self, title: str, total: int) -> Iterator[Bar]:
        """Shows a progress bar, on a terminal only, and removes it afterwards."""
        columns = (TextColumn("  {task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        with Progress(
            *columns, console=self._console, transient=True, disable=not self._console.is_terminal
        ) as progress:
            yield Bar(progress, progress.add_task(title, total=total))


class Bar:
    """A progress bar."""

    def __init__(self, progress: Progress, task: TaskID) -> None:
        self._progress = progress
        self._task = task

    def reach(self, done: int) -> None:
        """Sets how many are done."""
        self._progress.update(self._task, completed=done)


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 200 else text[:200] + "..."
