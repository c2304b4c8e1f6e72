"""Jobs in which a slow attempt writes during, and after, the second attempt that overtook it."""

from __future__ import annotations

from tests.crash.account import Account, Settings
from tests.spark.campaigns.cluster import cluster
from tests.spark.campaigns.jobs import judge, run_job
from tests.spark.campaigns.setup import in_own_process, set_up

PROMISE = "two attempts of a task write at the same time: the table is as if one had run, and no later change is lost"
JOBS, JOBS_SHORT = 10, 1
_SETTINGS = {
    "spark.speculation": "true",
    "spark.speculation.interval": "100ms",
    "spark.speculation.multiplier": "1.1",
    "spark.speculation.quantile": "0.5",
    "spark.speculation.minTaskRuntime": "200ms",
    "spark.executor.memory": "512m",
    "spark.cores.max": "4",
}


def run(settings: Settings) -> Account:
    """Runs the campaign."""

    def campaign(account: Account) -> None:
        with set_up(settings) as setup, cluster(setup.folder, 2) as master:
            spark = setup.session(master, _SETTINGS)
            for job in range(1, 1 + (JOBS_SHORT if settings.is_short else JOBS)):
                upstream = setup.upstream("linger", job)
                run_job(spark, upstream)
                seconds = [mark for mark in upstream.noted("begun") if not mark.endswith(".0")]
                account.counts["second attempts"] += len(seconds)
                if not seconds:
                    account.problems.append(f"job {job}: there was no second attempt")
                judge(setup.client, setup.model, upstream, account)
            spark.stop()

    return in_own_process("speculation", PROMISE, campaign)
