"""Random changes of few columns, with crashes and clock steps, get the timestamps of the documented rule."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from rowlock_regionserver.cells import Durability
from rowlock_regionserver.clock import ManualClock
from rowlock_regionserver.config import Config
from rowlock_regionserver.files import Files
from rowlock_regionserver.host.region_server import RegionServer
from rowlock_regionserver.operations import Append, Check, CompareOp, Condition, Put

from tests.seeds import drawn_seed
from tests.unit.host.test_old_reservations import as_earlier_versions_wrote_it
from tests.unit.region.conftest import Engine, abandon, bulk_batch

BLOCK_MS = 200
HOUR_MS = 3600 * 1000
COLUMNS = [(b"r", b"a"), (b"r", b"b"), (b"s", b"a")]


class Model:
    """The acknowledged changes of each column: the clock's millisecond, the timestamp, and the value."""

    def __init__(self, engine: Engine, clock: ManualClock, rng: random.Random) -> None:
        self.engine = engine
        self.clock = clock
        self.rng = rng
        self.made: dict[tuple[bytes, bytes], tuple[int, int, bytes]] = {}
        self.steps: list[str] = []
        self.count = 0

    def change(self) -> None:
        column = row, qualifier = self.rng.choice(COLUMNS)
        self.count += 1
        value = b"%d" % self.count
        way = self.rng.choice(["put", "put", "append", "check", "bulk"])
        self.steps.append(f"{way} {column} at {self.clock.now_ms()}")
        put = Put(b"g", qualifier, value)
        if way == "append":
            self.engine.change(row, Append(b"g", qualifier, value))
        elif way == "check":
            check = Check(b"g", b"none", CompareOp.EQUAL, None)
            self.engine.change(row, put, condition=Condition((check,)))
        elif way == "bulk":
            self.engine.bulk(bulk_batch((row, b"g", qualifier, None, value)))
        else:
            self.engine.change(row, put)
        self.check(column, value)

    def check(self, column: tuple[bytes, bytes], value: bytes) -> None:
        row, qualifier = column
        ((_, _, timestamp, found),) = [cell for cell in self.engine.cells(row) if cell[:2] == (b"g", qualifier)]
        assert found.endswith(value), (found, value, self.steps)
        now_ms = self.clock.now_ms()
        if column in self.made:
            made_ms, before, _ = self.made[column]
            assert timestamp > before or (timestamp == before and now_ms == made_ms), (timestamp, before, self.steps)
        self.made[column] = now_ms, timestamp, found

    def step(self) -> None:
        action = self.rng.choices(
            ["change", "tick", "crash", "restart", "flush", "range", "set back", "set forward"],
            [60, 40, 4, 2, 4, 4, 1, 1],
        )[0]
        if action == "change":
            self.change()
            return
        self.steps.append(action)
        if action == "tick":
            self.clock.advance(self.rng.choice([1, 1, 1, 2, 16]))
        elif action == "crash":
            self.engine.crash()
        elif action == "restart":
            self.engine.restart()
        elif action == "flush":
            self.engine.server.flush("t")
        elif action == "range":
            self.engine.server.timestamp_range("t", self.rng.choice([0, 50, 500]))
        elif action == "set back":
            self.clock.set_now_ms(self.clock.now_ms() - self.rng.choice([1, 30, 1000]))
        else:
            self.clock.set_now_ms(self.clock.now_ms() + self.rng.choice([30, 1000, 20 * HOUR_MS]))


@pytest.mark.parametrize("beginning", ["new", "affected by an earlier version"])
@pytest.mark.parametrize("run", range(2))
def test_changes_of_a_column_in_different_milliseconds_have_different_timestamps_and_the_last_one_is_seen(
    tmp_path: Path, beginning: str, run: int
) -> None:
    rng = random.Random(drawn_seed() + run)
    clock = ManualClock(1_700_000_000_001)
    engine = Engine(tmp_path, Config(log_segment_bytes=1 << 20, stamp_leap_ms=BLOCK_MS), clock, Files(), Durability.OS)
    model = Model(engine, clock, rng)
    if beginning != "new":
        clock.advance(20 * HOUR_MS)
        model.change()
        engine.server.flush("t")
        clock.advance(-20 * HOUR_MS)
        abandon(engine.server)
        for folder in (tmp_path / "regions").iterdir():
            as_earlier_versions_wrote_it(folder)
        engine.server = RegionServer.open(tmp_path, engine.config, clock, engine.files, engine.fatal.append)
    for _ in range(120):
        model.step()
    engine.server.stop()
    assert not engine.fatal
