"""Runs campaigns on builds that are broken on purpose: each must be detected."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from tests.crash.account import Account, Settings
from tests.spark.campaigns import changing_rows, consistent_cut, task_failures
from tests.spark.campaigns.broken_formats import ANY_SNAPSHOT, MOMENT_OF_EACH_TASK, TIMESTAMP_OF_EACH_TASK

PROMISE = "the campaigns detect a broken build"
_BROKEN: Mapping[str, Callable[[Settings], Account]] = {
    "each attempt of a task has its own timestamp": lambda settings: task_failures.run(
        settings, TIMESTAMP_OF_EACH_TASK
    ),
    "each task reads at its own read point": lambda settings: changing_rows.run(settings, MOMENT_OF_EACH_TASK),
    "each task reads a bank at its own read point": lambda settings: consistent_cut.run(settings, MOMENT_OF_EACH_TASK),
    "a read ignores its option snapshot": lambda settings: consistent_cut.run(settings, ANY_SNAPSHOT),
}


def run(settings: Settings) -> Account:
    """Runs the campaigns, always in the short form: a broken build shows at once."""
    account = Account("broken_builds", PROMISE)
    for name, campaign in _BROKEN.items():
        found = campaign(replace(settings, is_short=True))
        account.counts["broken builds"] += 1
        if found.problems:
            account.notes.append(f"{name}: {found.problems[0]}")
        else:
            account.problems.append(f"{name}, and no campaign detected it: {dict(found.counts)}")
    return account
