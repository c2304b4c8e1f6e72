"""Jobs whose tasks fail at random places, while other clients correct rows that are written already."""

from __future__ import annotations

from tests.crash.account import Account, Settings
from tests.spark.campaigns.jobs import FORMAT, judge, run_job
from tests.spark.campaigns.setup import in_own_process, set_up

PROMISE = "tasks fail up to three times half-way: the table is as if each had run once, and no later change is lost"
JOBS, JOBS_SHORT = 20, 2


def run(settings: Settings, sink: str = FORMAT) -> Account:
    """Runs the campaign. sink: the format to write to, which may be one that is broken on purpose."""

    def campaign(account: Account) -> None:
        with set_up(settings) as setup:
            spark = setup.session("local[2,4]")
            if sink != FORMAT:
                from tests.spark.campaigns.broken_formats import register

                register(spark)
            for job in range(1, 1 + (JOBS_SHORT if settings.is_short else JOBS)):
                upstream = setup.upstream("fail", job)
                run_job(spark, upstream, sink)
                account.counts["attempts that failed"] += len(upstream.noted("failed"))
                judge(setup.client, setup.model, upstream, account)
            spark.stop()

    account = in_own_process("task_failures", PROMISE, campaign)
    if not account.counts["attempts that failed"]:
        account.problems.append("no attempt failed")
    return account
