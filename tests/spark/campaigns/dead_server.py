"""A read whose server dies for good, in a task that Spark runs four times, as it does on a cluster."""

from __future__ import annotations

import time

from tests.crash.account import Account, Settings
from tests.spark.campaigns.process_files import errors_kept
from tests.spark.campaigns.stage import Stage, in_own_process, stage

PROMISE = "a read of a server that has died ends after a little less than twice the timeout, and says so"
_FAILURES = 4


def run(settings: Settings) -> Account:
    """The campaign."""

    def campaign(account: Account) -> None:
        with stage(settings) as held:
            _try_out(held, account, None if not settings.is_short else 4)

    return in_own_process("dead_server", PROMISE, campaign)


def _try_out(held: Stage, account: Account, timeout_s: int | None) -> None:
    """timeout_s: None for the default."""
    held.client.table("t").put("row", {"f:number": "1"})
    spark = held.session(f"local[1,{_FAILURES}]")
    options = {"server": held.server.address, "table": "t", "mapping": "id STRING :key, number STRING f:number"}
    if timeout_s is not None:
        options["timeout"] = str(timeout_s)
    frame = spark.read.format("rowlock").options(**options).load()
    assert frame.count() == 1
    held.server.kill()
    errors = held.folder / "errors"
    for name, read in (
        # Spark has planned the first already, so that its tasks are the ones that wait.
        ("by tasks", frame.count),
        ("by a new query of the DataFrame", frame.where("number = '1'").count),
        ("by load()", lambda: spark.read.format("rowlock").options(**options).load()),
    ):
        started = time.monotonic()
        try:
            with errors_kept(errors):
                read()
        except Exception as error:  # Spark raises errors of many classes
            told = [line for line in str(error).splitlines() if "no rowlock server answered" in line]
            account.counts[f"s for a read {name}"] = round(time.monotonic() - started)
            account.notes += told[-1:]
            if not told or held.server.address not in told[-1]:
                account.problems.append(f"a read {name} failed with {str(error)[:300]}")
        else:
            account.problems.append(f"a read {name} did not fail")
    spark.stop()
    held.server.restart()
