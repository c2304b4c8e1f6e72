"""A read whose server dies and stays dead, in a task that Spark runs four times, as on a cluster."""

from __future__ import annotations

import time

from tests.crash.account import Account, Settings
from tests.spark.campaigns.process_files import stderr_to
from tests.spark.campaigns.setup import Setup, in_own_process, set_up

PROMISE = "a read of a server that has died ends after a little less than twice the timeout and names the server"
_FAILURES = 4


def run(settings: Settings) -> Account:
    """Runs the campaign."""

    def campaign(account: Account) -> None:
        with set_up(settings) as setup:
            _try_out(setup, account, None if not settings.is_short else 4)

    return in_own_process("dead_server", PROMISE, campaign)


def _try_out(setup: Setup, account: Account, timeout_s: int | None) -> None:
    """Reads from a dead server in three ways. timeout_s: None for the default."""
    setup.client.table("t").put("row", {"f:number": "1"})
    spark = setup.session(f"local[1,{_FAILURES}]")
    options = {"server": setup.server.address, "table": "t", "mapping": "id STRING :key, number STRING f:number"}
    if timeout_s is not None:
        options["timeout"] = str(timeout_s)
    frame = spark.read.format("rowlock").options(**options).load()
    assert frame.count() == 1
    setup.server.kill()
    errors = setup.folder / "errors"
    for name, read in (
        # Spark has planned the first one already, so its tasks wait.
        ("by tasks", frame.count),
        ("by a new query of the DataFrame", frame.where("number = '1'").count),
        ("by load()", lambda: spark.read.format("rowlock").options(**options).load()),
    ):
        started = time.monotonic()
        try:
            with stderr_to(errors):
                read()
        except Exception as error:  # Spark raises errors of many classes
            messages = [line for line in str(error).splitlines() if "no rowlock server answered" in line]
            account.counts[f"s for a read {name}"] = round(time.monotonic() - started)
            account.notes += messages[-1:]
            if not messages or setup.server.address not in messages[-1]:
                account.problems.append(f"a read {name} failed with {str(error)[:300]}")
        else:
            account.problems.append(f"a read {name} did not fail")
    spark.stop()
    setup.server.restart()
