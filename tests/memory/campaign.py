"""Servers in control groups of little memory: `python -m tests.memory.campaign [NAME ...] [--short]`. Needs root.

Each job (jobs.py) runs on a server with default settings, in a group of 1 GiB and in one of 512 MiB. The system must
not kill the server, its memory must never exceed `memory` and the allowance that docs/memory.md names, and the data
must be complete, also after a kill and a restart in the same group.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import rowlock
from rowlock_regionserver.config import MIB
from rowlock_regionserver.memory_plan import ALLOWANCE_BYTES, planned

from bench.processes import ServerProcess
from tests.crash import command_line
from tests.crash.account import Account, Settings
from tests.memory import jobs
from tests.memory.control_group import ControlGroup, control_group

PROMISE = "a server of little memory is not killed, and holds no more than it may; slower, but nothing is lost"
LIMITS_MIB = (1024, 512)
JOBS = {
    "import": jobs.import_of_small_rows,
    "overwriting": jobs.overwriting,
    "scans": jobs.scans,
    "load": jobs.load,
    "gets": jobs.gets,
}
_SHORT_SHARE = 0.02


def run(name: str, limit_mib: int, settings: Settings) -> Account:
    """Runs one job in one group."""
    account = Account(f"{name}_{limit_mib}", PROMISE)
    job = JOBS[name](_SHORT_SHARE if settings.is_short else 1.0)
    allowed = planned({}, limit_mib * MIB).memory + ALLOWANCE_BYTES
    account.counts["MiB allowed"] = allowed // MIB
    folder = Path(tempfile.mkdtemp(prefix="rowlock-memory-"))
    try:
        with control_group(limit_mib * MIB) as group:
            with _server(group, folder) as server, _client(server) as client:
                _timed(account, "s for the work", lambda: job.run(jobs.Place(server.address, client, folder)))
                _look(account, "before the kill", job, client)
                _measure(account, "MiB held at most", server, allowed)
                server.kill()
            with _server(group, folder) as server, _client(server) as client:
                account.counts["ms of recovery"] = int(1000 * server.ready_seconds)
                _look(account, "after the kill", job, client)
                _measure(account, "MiB held at most after the kill", server, allowed)
                server.stop(seconds_max=300)
            account.counts["killed by the system"] = group.kill_count()
            if group.kill_count():
                account.problems.append("the system killed the server")
        account.notes += (folder / "log").read_text().splitlines()[:5]
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return account


def _server(group: ControlGroup, folder: Path) -> ServerProcess:
    program = str(Path(sys.executable).parent / "rowlock-server")
    words = [program, "--data", str(folder / "data"), "--listen", "127.0.0.1:0"]
    return ServerProcess(group.command(words), folder / "log", ready_seconds_max=300)


def _client(server: ServerProcess) -> rowlock.Client:
    return rowlock.connect(server.address, timeout=jobs.CLIENT_SECONDS)


def _timed(account: Account, what: str, work: Callable[[], object]) -> None:
    started = time.monotonic()
    work()
    account.counts[what] = round(time.monotonic() - started)


def _look(account: Account, when: str, job: jobs.Job, client: rowlock.Client) -> None:
    started = time.monotonic()
    found = job.found(client)
    account.counts[f"s for a scan {when}"] = round(time.monotonic() - started)
    account.counts["rows"] = found.rows
    if found != job.expected:
        account.problems.append(f"{when} found {found}, expected {job.expected}")


def _measure(account: Account, what: str, server: ServerProcess, allowed: int) -> None:
    peak = server.peak_resident_mib()
    account.counts[what] = int(peak)
    if peak * MIB > allowed:
        account.problems.append(f"{what}: {peak:.0f}, but only {allowed // MIB} are allowed")


CAMPAIGNS: dict[str, Callable[[Settings], Account]] = {
    f"{name}_{limit_mib}": partial(run, name, limit_mib) for limit_mib in LIMITS_MIB for name in JOBS
}

if __name__ == "__main__":
    command_line.main(CAMPAIGNS, "tests.memory.campaign", __doc__)
