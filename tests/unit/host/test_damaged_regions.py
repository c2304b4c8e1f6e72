"""A region that is closed because of damage: its files stay, and other regions are served as before."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest
from rowlock_regionserver.cells import Durability, Family
from rowlock_regionserver.clock import Clock
from rowlock_regionserver.config import Config
from rowlock_regionserver.errors import CorruptionError, UnknownOutcomeError
from rowlock_regionserver.files import Files
from rowlock_regionserver.host.region_server import RegionServer
from rowlock_regionserver.operations import Increment, Put, RequestId, RowMutation, RowOutcome, WriteOptions
from rowlock_regionserver.wal.recovery import read_log

from tests.unit.host.stopped_folder import cut_drop_short
from tests.unit.region.conftest import abandon
from tests.waiting import WAIT_S

CONFIG = Config(log_segment_bytes=1 << 16)
VALUE = b"a value to be found in the log"


def opened(folder: Path) -> RegionServer:
    fatal: list[BaseException] = []
    return RegionServer.open(folder, CONFIG, Clock(), Files(), fatal.append)


def put(server: RegionServer, table: str, row: bytes, value: bytes) -> None:
    (region,) = server.regions_of(table)
    mutation = RowMutation(row, (Put(b"f", b"q", value),))
    told = threading.Event()
    region.mutate([mutation], WriteOptions(time.monotonic() + WAIT_S), lambda _: told.set(), may_wait=True)
    assert told.wait(WAIT_S)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The folder of a killed server: table t with one row that is only in the log, and an empty table u."""
    server = opened(tmp_path)
    for name in ("t", "u"):
        server.create_table(name, [Family(0, b"f")], Durability.OS)
    put(server, "t", b"r", VALUE)
    abandon(server)
    return tmp_path


def flip_in(path: Path, offset: int) -> None:
    data = bytearray(path.read_bytes())
    data[offset] ^= 1
    path.write_bytes(data)


def test_a_region_with_a_damaged_manifest_does_not_keep_the_log_of_the_others(folder: Path) -> None:
    (manifest,) = (folder / "regions" / "1").glob("manifest-*")
    flip_in(manifest, -1)
    server = opened(folder)
    with pytest.raises(CorruptionError):
        server.regions_of("t")
    deadline = time.monotonic() + WAIT_S
    removed = 0
    while removed < 6 and time.monotonic() < deadline:
        put(server, "u", b"r", b"v" * 30_000)
        server.flush("u")
        removed = server.statistics().log.removed_segment_count
    assert removed >= 6
    server.stop()
    kept = [path for path in (folder / "log").iterdir() if VALUE in path.read_bytes()]
    assert len(kept) == 1, "what its repair may need is set aside"
    opened(folder).stop()


def test_the_log_forgets_a_damaged_region_that_was_dropped_just_before_a_crash(folder: Path) -> None:
    (segment,) = [path for path in (folder / "log").iterdir() if VALUE in path.read_bytes()]
    flip_in(segment, segment.read_bytes().index(VALUE))
    server = opened(folder)
    assert list(server.damaged_regions()) == [1]
    abandon(server)
    cut_drop_short(folder, "t")
    server = opened(folder)
    assert server.damaged_regions() == {}
    server.stop()
    recovered = read_log(folder / "log", Files(), lambda *_: None)
    assert (list(recovered.regions), list(recovered.damaged)) == ([2], [])


def increment(server: RegionServer, sequence: int, age_ms: int) -> RowOutcome:
    (region,) = server.regions_of("t")
    outcomes: list[RowOutcome] = []
    told = threading.Event()

    def done(them: list[RowOutcome]) -> None:
        outcomes.extend(them)
        told.set()

    request = RequestId(b"c" * 16, sequence, 0, age_ms)
    mutation = RowMutation(b"r", (Increment(b"f", b"n", 1),), None, (), request)
    options = WriteOptions(time.monotonic() + WAIT_S)
    assert region.mutate([mutation], options, done, may_wait=True)
    assert told.wait(WAIT_S)
    return outcomes[0]


@pytest.mark.parametrize("is_started_again", [False, True])
def test_a_change_that_may_precede_the_truncate_of_a_damaged_table_is_not_repeated(
    folder: Path, is_started_again: bool
) -> None:
    (manifest,) = (folder / "regions" / "1").glob("manifest-*")
    flip_in(manifest, -1)
    server = opened(folder)
    server.truncate_table("t")
    if is_started_again:
        server.stop()
        server = opened(folder)
    outcome = increment(server, 1, age_ms=1)
    assert isinstance(outcome, UnknownOutcomeError)
    assert "may be forgotten" in str(outcome)
    assert not isinstance(increment(server, 2, age_ms=0), Exception), "it is sent for the first time"
    server.stop()
