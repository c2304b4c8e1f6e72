"""A client process that is stopped for longer than the server saves answers does not repeat a change."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import rowlock
from rowlock_regionserver.config import Config
from rowlock_regionserver.operations import Put, RowMutation, Selection, WriteOptions
from rowlock_regionserver.region.region import Region
from rowlock_regionserver.server import Server

from tests.end_to_end.lossy_proxy import LossyProxy
from tests.waiting import wait_until

# Connects, increments, and increments once more when it reads a line; its deadline is far beyond the test.
CLIENT = """
import sys
import rowlock
with rowlock.connect(sys.argv[1], timeout=3600) as db:
    table = db.table("t")
    print(table.increment("r", "f:n"), flush=True)
    sys.stdin.readline()
    try:
        print(table.increment("r", "f:n"), flush=True)
    except rowlock.UnknownOutcomeError:
        print("unknown", flush=True)
"""


def counter(region: Region) -> int:
    answer = region.get([b"r"], Selection(), may_wait=True)
    assert answer is not None
    return sum(int.from_bytes(value, "big") for _, _, _, value in answer[0])


def remembers_nothing(region: Region) -> bool:
    """After a flush, in which a region forgets silent clients."""
    options = WriteOptions(time.monotonic() + 60)
    region.mutate([RowMutation(b"other", (Put(b"f", b"q", b"v"),))], options, lambda _: None, may_wait=True)
    region.flush()
    return region.statistics().request_ids.saved_answers == 0


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="reads from /proc whether a process is stopped")
def test_a_client_that_was_stopped_does_not_repeat_a_change_that_the_server_forgot(tmp_path: Path) -> None:
    proxy = LossyProxy()
    config = Config(request_ids_forgotten_after_ms=2000)
    with Server(tmp_path / "data", config=config, advertise=proxy.address) as server:
        proxy.stand_before(server.address)
        with rowlock.connect(proxy.address) as db:
            db.create_table("t", ["f"])
        (region,) = server.region_server.regions_of("t")
        words = [sys.executable, "-c", CLIENT, proxy.address]
        client = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        try:
            assert client.stdin is not None
            assert client.stdout is not None
            assert client.stdout.readline() == "1\n"
            proxy.swallow_answers()
            client.stdin.write("\n")
            client.stdin.flush()
            wait_until(lambda: counter(region) == 2)
            client.send_signal(signal.SIGSTOP)
            stat = Path(f"/proc/{client.pid}/stat")
            wait_until(lambda: stat.read_text().rpartition(")")[2].split()[0] == "T")
            wait_until(lambda: remembers_nothing(region))
            proxy.cut()
            client.send_signal(signal.SIGCONT)
            assert client.stdout.readline() == "unknown\n"
        finally:
            client.kill()
            client.communicate()
        assert counter(region) == 2
    proxy.close()
