"""A Spark cluster on one machine: a master and two workers on loopback addresses, so that Spark can speculate.

Spark never runs a second attempt on the host of the first, and distinguishes hosts by their addresses. Linux has all of
127.0.0.0/8; other systems need a second loopback address.
"""

from __future__ import annotations

import os
import re
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from rowlock.spark import prepare_environment

HOSTS = ("127.0.0.2", "127.0.0.3")
_MASTER_HOST = "127.0.0.1"
_START_S_MAX = 180.0
_ROOT = Path(__file__).parents[3]
_DEPLOY = "org.apache.spark.deploy"


@contextmanager
def cluster(folder: Path, cores: int) -> Iterator[str]:
    """Starts the cluster, with `cores` per worker. Yields the master's address. Kills all processes at the end."""
    prepare_environment()
    with ExitStack() as running:
        master = [f"{_DEPLOY}.master.Master", "--host", _MASTER_HOST, "--port", "0", "--webui-port", "0"]
        log = running.enter_context(_running(master, _MASTER_HOST, folder / "master.log"))
        address = _wait_for(log, r"spark://[\d.]+:\d+")
        for host in HOSTS:
            worker = [f"{_DEPLOY}.worker.Worker", "--host", host, "--webui-port", "0", "--cores", str(cores)]
            worker += ["--memory", "1g", "--work-dir", str(folder / f"work-{host}"), address]
            log = running.enter_context(_running(worker, host, folder / f"worker-{host}.log"))
            _wait_for(log, "Successfully registered with master")
        yield address


@contextmanager
def _running(words: list[str], host: str, log: Path) -> Iterator[Path]:
    """Runs a Spark process. Yields its log."""
    import pyspark

    home = Path(pyspark.__file__).parent
    environment = {
        **os.environ,
        # Each binds only to its own address.
        "SPARK_LOCAL_IP": host,
        "SPARK_LOCAL_HOSTNAME": host,
        "SPARK_DAEMON_MEMORY": "256m",
        # The tasks import this folder of tests, and executors have another working directory.
        "PYTHONPATH": str(_ROOT),
    }
    with log.open("w") as output:
        process = subprocess.Popen(
            [str(home / "bin" / "spark-class"), *words],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    try:
        yield log
    finally:
        process.kill()
        process.wait()


def _wait_for(log: Path, pattern: str) -> str:
    """Waits until the pattern matches in the log. Returns the match."""
    stop = time.monotonic() + _START_S_MAX
    while (found := re.search(pattern, log.read_text())) is None:
        assert time.monotonic() < stop, (
            f"{log.name} has no {pattern!r} after {_START_S_MAX:g} s: {log.read_text()[-2000:]}"
        )
        time.sleep(0.05)
    return found.group()
