"""Jobs in the middle of which the server is killed and started again."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from tests.crash.account import Account, Settings
from tests.spark.campaigns.jobs import judge, run_job
from tests.spark.campaigns.stage import Stage, in_own_process, stage
from tests.spark.campaigns.upstream import Upstream
from tests.spark.campaigns.waiting import until

PROMISE = "the server is killed in the middle of a job and started again: the job goes on, and nothing is lost"
JOBS, JOBS_SHORT = 10, 1


def run(settings: Settings) -> Account:
    """The campaign."""

    def campaign(account: Account) -> None:
        with stage(settings) as held, ThreadPoolExecutor(1) as pool:
            spark = held.session("local[2]")
            for job in range(1, 1 + (JOBS_SHORT if settings.is_short else JOBS)):
                upstream = held.upstream("stop", job)
                # The job stays in this thread: in another one Spark does not find the format for a write.
                killing = pool.submit(_kill_half_way, held, upstream)
                run_job(spark, upstream)
                killing.result()
                account.counts["kills"] += 1
                judge(held.client, held.model, upstream, account)
            spark.stop()

    return in_own_process("server_kills", PROMISE, campaign)


def _kill_half_way(held: Stage, upstream: Upstream) -> None:
    until(lambda: upstream.noted("stopped"))
    held.server.kill()
    # The tasks send on while there is nobody to take it.
    upstream.go_on()
    held.server.restart()
