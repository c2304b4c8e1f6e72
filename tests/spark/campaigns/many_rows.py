"""Three million small rows in one job: with a server of default settings, and with one whose flushes are slow.

The second server has little memory, so that it soon reports that it is busy, and each flush takes longer than the job's
timeout.
"""

from __future__ import annotations

import re
import shutil
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from tempfile import mkdtemp

import pyarrow.compute as pc
import rowlock
from rowlock_regionserver.config import MIB
from rowlock_regionserver.memory_limit import memory_limit
from rowlock_regionserver.memory_plan import ALLOWANCE_BYTES, planned

from bench.processes import ServerProcess
from tests.crash.account import Account, Settings
from tests.spark.campaigns.process_files import peak_resident_bytes, stderr_to
from tests.spark.campaigns.setup import in_own_process
from tests.spark.session import local_session

PROMISE = "a job of many small rows is written completely, even if flushes take longer than its timeout"
ROWS, ROWS_SHORT = 3_000_000, 100_000
_MAPPING = "id STRING :key, number BIGINT f:number, text STRING f:text"
_SLOW_SETTINGS = {"memory": 256 * MIB}
_TIMEOUT_S, _FLUSH_S = 5.0, 15.0
_SLOW_FLUSHES = f"""
import time
from rowlock_regionserver.__main__ import main
from rowlock_regionserver.region.flush import Flusher
flush = Flusher.flush
def slow_flush(self, *arguments):
    time.sleep({_FLUSH_S})
    return flush(self, *arguments)
Flusher.flush = slow_flush
main()
"""


def run(settings: Settings) -> Account:
    """Runs the campaign."""
    row_count = ROWS_SHORT if settings.is_short else ROWS

    def campaign(account: Account) -> None:
        folder = Path(mkdtemp(prefix="rowlock-spark-"))
        try:
            program = [str(Path(sys.executable).parent / "rowlock-server")]
            _write(account, "default settings", folder, program, {}, row_count, {})
            program = [sys.executable, "-c", _SLOW_FLUSHES]
            options = {"timeout": str(_TIMEOUT_S)}
            waits = _write(account, "slow flushes", folder, program, _SLOW_SETTINGS, row_count, options)
            account.counts["longest wait in the log, s"] = max(waits, default=0)
            if not settings.is_short and max(waits, default=0) <= _TIMEOUT_S:
                account.problems.append(f"no task waited longer than its timeout: {waits}")
        finally:
            shutil.rmtree(folder)

    return in_own_process("many_rows", PROMISE, campaign)


def _write(
    account: Account,
    name: str,
    folder: Path,
    program: Sequence[str],
    limits: dict[str, int],
    row_count: int,
    options: dict[str, str],
) -> list[int]:
    """Writes the rows, checks the table and the server's memory. Returns the waits that tasks logged, in s."""
    from pyspark.sql.functions import expr

    words = [*program, "--data", str(folder / name.replace(" ", "-")), "--listen", "127.0.0.1:0"]
    for setting, value in limits.items():
        words += ["--config", f"{setting}={value}"]
    errors = folder / "errors"
    with ServerProcess(words, folder / "server.log") as server, stderr_to(errors):
        spark = local_session(folder, "local[2]")
        # Not in key order.
        key = expr("format_string('%09d', (id * 7919) % 100000007)")
        frame = spark.range(row_count, numPartitions=4).select(
            key.alias("id"), expr("id AS number"), expr("concat('text ', id) AS text")
        )
        given = {"server": server.address, "table": "t", "mapping": _MAPPING, "create": "true", **options}
        started = time.monotonic()
        frame.write.format("rowlock").mode("append").options(**given).save()
        account.counts[f"{name}: s to write"] = round(time.monotonic() - started)
        spark.stop()
        with rowlock.connect(server.address, timeout=600) as client:
            found = client.table("t").scan().to_arrow("id STRING :key, number BIGINT f:number")
        account.counts[f"{name}: rows"] = found.num_rows
        if found.num_rows != row_count or pc.sum(found["number"]).as_py() != row_count * (row_count - 1) // 2:
            account.problems.append(f"{name}: expected {row_count} rows, found {found.num_rows}, or their sum differs")
        peak = peak_resident_bytes(server.pid)
        allowed = planned(limits, memory_limit()).memory + ALLOWANCE_BYTES
        account.counts[f"{name}: peak memory, MiB"] = peak // MIB
        account.counts[f"{name}: memory allowed, MiB"] = allowed // MIB
        if peak > allowed:
            account.problems.append(f"{name}: the server used {peak // MIB} MiB, but {allowed // MIB} are allowed")
        # A stop would wait for the last flushes.
        server.kill()
    return [int(found) for found in re.findall(r"has waited (\d+) s for the server", errors.read_text())]
