"""The functions of the commands, by name. A command line uses one of them, so each is imported at its first use."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Mapping
from typing import TypeAlias

from rowlock.cli.start import interrupts_end_at_once

CommandFunction: TypeAlias = Callable[..., int | None]

# Module and function, in the order of the help.
_PLACES: Mapping[str, str] = {
    "create": "tables.create",
    "alter": "tables.alter",
    "drop": "tables.drop",
    "truncate": "tables.truncate",
    "snapshot": "snapshots.snapshot",
    "snapshots": "named_snapshots.snapshots",
    "changes": "change_feed.changes",
    "status": "status.status",
    "tables": "tables.tables",
    "describe": "tables.describe",
    "flush": "tables.flush",
    "regions": "regions.regions",
    "split": "regions.split",
    "merge": "regions.merge",
    "compact": "compactions.compact",
    "compactions": "compactions.compactions",
    "sessions": "sessions.sessions",
    "locks": "sessions.locks",
    "put": "rows.put",
    "get": "rows.get",
    "exists": "rows.exists",
    "scan": "scans.scan",
    "count": "scans.count",
    "delete": "rows.delete",
    "delete-range": "scans.delete_range",
    "counter": "rows.counter",
    "increment": "rows.increment",
    "append": "rows.append",
    "call": "rows.call",
    "check-and-put": "checks.check_and_put",
    "check-and-delete": "checks.check_and_delete",
    "check-and-mutate": "checks.check_and_mutate",
    "import": "transfer.importing.import_rows",
    "export": "transfer.exporting.export_rows",
    "shell": "shell.shell",
    "completion": "shell_completion.completion",
}


class _Commands(Mapping[str, CommandFunction]):
    """Imports the module of a command when its function is asked for."""

    def __getitem__(self, name: str) -> CommandFunction:
        module, _, function = _PLACES[name].rpartition(".")
        with interrupts_end_at_once():
            found: CommandFunction = getattr(importlib.import_module(f"rowlock.cli.{module}"), function)
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(_PLACES)

    def __len__(self) -> int:
        return len(_PLACES)


COMMANDS: Mapping[str, CommandFunction] = _Commands()


def summary_of(function: CommandFunction) -> str:
    """Returns the first sentence of a command's help."""
    paragraph = " ".join((function.__doc__ or "").partition("\n\n")[0].split())
    return paragraph.partition(". ")[0].rstrip(".") + "."
