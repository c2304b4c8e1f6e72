"""The setup of a campaign: its server, table and folder, and Spark."""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import mkdtemp
from typing import TYPE_CHECKING

import rowlock
from rowlock.pytest_plugin import RowlockServer

from tests.crash.account import Account, Settings
from tests.crash.children import ChildFailedError, in_child
from tests.spark.campaigns.jobs import SETTINGS
from tests.spark.campaigns.rows import Model
from tests.spark.campaigns.upstream import Trouble, Upstream
from tests.spark.session import local_session

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

ROWS, ROWS_SHORT = 3000, 600


@dataclass(slots=True)
class Setup:
    """The setup of one campaign."""

    folder: Path
    server: RowlockServer
    client: rowlock.Client
    chance: random.Random
    row_count: int
    model: Model = field(default_factory=Model)

    def upstream(self, trouble: Trouble, job: int) -> Upstream:
        seed = self.chance.randrange(1 << 30)
        return Upstream(trouble, self.folder / "marks", self.server.address, job, seed, self.row_count)

    def session(self, master: str, settings: Mapping[str, str] | None = None) -> SparkSession:
        """Starts Spark, with small batches, so that each job has many of them."""
        session = local_session(self.folder, master, {**SETTINGS, **(settings or {})})
        # Spark would log each planned failure three times.
        session.sparkContext.setLogLevel("OFF")
        return session


@contextmanager
def set_up(settings: Settings, limits: Mapping[str, int] | None = None) -> Iterator[Setup]:
    """Starts a server in a new folder, with these settings. Stops it and removes the folder at the end."""
    folder = Path(mkdtemp(prefix="rowlock-spark-"))
    (folder / "marks").mkdir()
    options = [f"--config={name}={value}" for name, value in (limits or {}).items()]
    server = RowlockServer(folder / "data", folder / "server.log", options)
    server.start()
    try:
        with rowlock.connect(server.address, timeout=60) as client:
            client.create_table("t", ["f"])
            chance = random.Random(settings.seed)
            yield Setup(folder, server, client, chance, ROWS_SHORT if settings.is_short else ROWS)
        server.stop()
    finally:
        server.kill()
        shutil.rmtree(folder)


def in_own_process(name: str, promise: str, campaign: Callable[[Account], None]) -> Account:
    """Runs the campaign in a process with its own Java. Returns its account."""
    account = Account(name, promise)

    def run() -> Account:
        campaign(account)
        return account

    try:
        return in_child(run, seconds_max=None)
    except ChildFailedError as error:
        account.problems.append(str(error))
        return account
