"""Jobs whose driver is killed half-way, and that another driver runs again."""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
from pathlib import Path

from tests.crash.account import Account, Settings
from tests.spark.campaigns.jobs import SETTINGS, judge, run_job
from tests.spark.campaigns.rows import NUMBER
from tests.spark.campaigns.setup import Setup, in_own_process, set_up
from tests.spark.campaigns.upstream import Upstream
from tests.spark.campaigns.waiting import until
from tests.spark.session import local_session

PROMISE = "the driver is killed in the middle of a job, and the job is run again: the table is as if it had run once"
KILLS, KILLS_SHORT = 10, 1
_ROOT = Path(__file__).parents[3]


def run(settings: Settings) -> Account:
    """Runs the campaign."""

    def campaign(account: Account) -> None:
        with set_up(settings) as setup:
            spark = setup.session("local[2]")
            for job in range(1, 1 + (KILLS_SHORT if settings.is_short else KILLS)):
                upstream = setup.upstream("stop", job)
                _kill_half_way(setup, upstream, account)
                # Tasks that outlived the driver, if any, continue during the second run.
                upstream.resume()
                run_job(spark, upstream)
                judge(setup.client, setup.model, upstream, account)
            spark.stop()

    return in_own_process("driver_kills", PROMISE, campaign)


def _kill_half_way(setup: Setup, upstream: Upstream, account: Account) -> None:
    order = setup.folder / "order"
    order.write_bytes(pickle.dumps(upstream))
    with (setup.folder / "driver.log").open("w") as log:
        driver = subprocess.Popen(
            [sys.executable, "-m", "tests.spark.campaigns.driver_kills", str(order)],
            cwd=_ROOT,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    try:
        until(lambda: upstream.noted("stopped") or driver.poll() is not None)
        until(lambda: _rows_written(setup, upstream) or driver.poll() is not None)
        if driver.poll() is None:
            account.counts["drivers killed half way"] += 1
        else:
            account.problems.append(f"job {upstream.job}: {(setup.folder / 'driver.log').read_text()[-1000:]}")
    finally:
        # The process group, with Java.
        os.killpg(driver.pid, signal.SIGKILL)
        driver.wait()
    account.counts["rows written before the kill"] += _rows_written(setup, upstream)


def _rows_written(setup: Setup, upstream: Upstream) -> int:
    """Returns how many rows have a number of this job."""
    numbers = (cells.get(NUMBER, b"") for _, cells in setup.client.table("t").scan())
    return sum(int.from_bytes(number, "big", signed=True) // 1_000_000 == upstream.job for number in numbers)


def _drive(order: Path) -> None:
    upstream: Upstream = pickle.loads(order.read_bytes())
    folder = order.parent / "driver"
    folder.mkdir(exist_ok=True)
    run_job(local_session(folder, "local[2]", SETTINGS), upstream)


if __name__ == "__main__":
    _drive(Path(sys.argv[1]))
