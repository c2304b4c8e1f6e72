"""The campaigns again, on builds that are broken on purpose: each must be found out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from tests.crash.account import Account, Settings
from tests.spark.campaigns import changing_rows, task_failures
from tests.spark.campaigns.broken_formats import MOMENT_OF_EACH_TASK, TIMESTAMP_OF_EACH_TASK

PROMISE = "the campaigns find out a build that is broken"
_BROKEN: Mapping[str, Callable[[Settings], Account]] = {
    "each task takes a timestamp of its own": lambda settings: task_failures.run(settings, TIMESTAMP_OF_EACH_TASK),
    "each task reads what there is when it begins": lambda settings: changing_rows.run(settings, MOMENT_OF_EACH_TASK),
}


def run(settings: Settings) -> Account:
    """In the short form always: what is broken shows at once."""
    account = Account("broken_builds", PROMISE)
    for name, campaign in _BROKEN.items():
        found = campaign(replace(settings, is_short=True))
        account.counts["broken builds"] += 1
        if found.problems:
            account.notes.append(f"{name}: {found.problems[0]}")
        else:
            account.problems.append(f"{name}, and nobody found it: {dict(found.counts)}")
    return account
