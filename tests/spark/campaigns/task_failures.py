"""Jobs whose tasks fail at random places, while others correct rows that were written already."""

from __future__ import annotations

from tests.crash.account import Account, Settings
from tests.spark.campaigns.jobs import FORMAT, judge, run_job
from tests.spark.campaigns.stage import in_own_process, stage

PROMISE = "tasks fail up to three times half way: the table is as if each had run once, and no later change is undone"
JOBS, JOBS_SHORT = 20, 2


def run(settings: Settings, sink: str = FORMAT) -> Account:
    """The campaign. sink: the format that is written to, for those that are broken on purpose."""

    def campaign(account: Account) -> None:
        with stage(settings) as held:
            spark = held.session("local[2,4]")
            if sink != FORMAT:
                from tests.spark.campaigns.broken_formats import register

                register(spark)
            for job in range(1, 1 + (JOBS_SHORT if settings.is_short else JOBS)):
                upstream = held.upstream("fail", job)
                run_job(spark, upstream, sink)
                account.counts["attempts that failed"] += len(upstream.noted("failed"))
                judge(held.client, held.model, upstream, account)
            spark.stop()

    account = in_own_process("task_failures", PROMISE, campaign)
    if not account.counts["attempts that failed"]:
        account.problems.append("no attempt failed")
    return account
