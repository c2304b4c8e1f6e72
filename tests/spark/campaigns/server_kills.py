"""Jobs during which the server is killed and restarted."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from tests.crash.account import Account, Settings
from tests.spark.campaigns.jobs import judge, run_job
from tests.spark.campaigns.setup import Setup, in_own_process, set_up
from tests.spark.campaigns.upstream import Upstream
from tests.spark.campaigns.waiting import until

PROMISE = "the server is killed in the middle of a job and restarted: the job continues, and nothing is lost"
JOBS, JOBS_SHORT = 10, 1


def run(settings: Settings) -> Account:
    """Runs the campaign."""

    def campaign(account: Account) -> None:
        with set_up(settings) as setup, ThreadPoolExecutor(1) as pool:
            spark = setup.session("local[2]")
            for job in range(1, 1 + (JOBS_SHORT if settings.is_short else JOBS)):
                upstream = setup.upstream("stop", job)
                # The job runs in this thread: in another one Spark does not find the format for a write.
                killing = pool.submit(_kill_half_way, setup, upstream)
                run_job(spark, upstream)
                killing.result()
                account.counts["kills"] += 1
                judge(setup.client, setup.model, upstream, account)
            spark.stop()

    return in_own_process("server_kills", PROMISE, campaign)


def _kill_half_way(setup: Setup, upstream: Upstream) -> None:
    until(lambda: upstream.noted("stopped"))
    setup.server.kill()
    # The tasks continue to send while no server runs.
    upstream.resume()
    setup.server.restart()
