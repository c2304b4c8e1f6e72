"""Memory is counted as it is held, in every case, and bounded even while the log is read."""

from __future__ import annotations

import errno
import os
import random
from pathlib import Path

import pytest
from rowlock_regionserver.cells import Durability, Family
from rowlock_regionserver.clock import Clock
from rowlock_regionserver.config import Config
from rowlock_regionserver.errors import DiskFullError, LimitExceededError
from rowlock_regionserver.files import Files
from rowlock_regionserver.operations import Put, RequestId, RowMutation

from tests.seeds import drawn_seed

from .conftest import Engine, bulk_batch
from .lone_region import LoneRegion, Step


class FullForStoreFiles(Files):
    is_full = False

    def open(self, path: Path, flags: int, mode: int = 0o600) -> int:
        if self.is_full and ".store" in path.name:
            raise OSError(errno.ENOSPC, "No space left on device", str(path))
        return super().open(path, flags, mode)


def put_rows(engine: Engine, chance: random.Random) -> None:
    for _ in range(100):  # Of one column, so that rows are pruned too.
        engine.change(b"%d" % chance.randrange(3), Put(b"g", b"q", os.urandom(chance.randrange(50))))


def load(engine: Engine, chance: random.Random) -> None:
    families = [family.name for family in engine.server.table("t").families]
    engine.bulk(bulk_batch(*[(b"%d" % i, chance.choice(families), b"q", None, b"v" * 90) for i in range(9, 99)]))


def fail_to_flush(engine: Engine, chance: random.Random) -> None:
    assert isinstance(engine.files, FullForStoreFiles)
    engine.change(b"r", Put(b"g", b"q", b"v"))
    engine.files.is_full = True
    with pytest.raises(DiskFullError):
        engine.server.flush("t")
    engine.files.is_full = False


def flush(engine: Engine, chance: random.Random) -> None:
    engine.server.flush("t")


def alter(engine: Engine, chance: random.Random) -> None:
    names = [family.name for family in engine.server.table("t").families]
    if b"h" in names:
        engine.server.alter_table("t", drop_families=[b"h"])
    else:
        engine.server.alter_table("t", set_families=[Family(0, b"h"), Family(0, b"g", versions=chance.randrange(1, 5))])


def crash(engine: Engine, chance: random.Random) -> None:
    engine.crash()


def truncate(engine: Engine, chance: random.Random) -> None:
    engine.server.truncate_table("t")


def test_the_gauge_always_equals_the_bytes_of_the_memstores(tmp_path: Path) -> None:
    seed = drawn_seed()
    chance = random.Random(seed)
    engine = Engine(tmp_path, Config(bulk_file_bytes_min=4096), Clock(), FullForStoreFiles(), Durability.OS)
    actions = [put_rows, load, fail_to_flush, flush, alter, crash, truncate]
    for action in [*actions, *chance.choices(actions, k=30)]:
        action(engine, chance)
        assert engine.server.statistics().memstore_bytes == engine.region.memstore_bytes, action.__name__
    engine.server.drop_table("t")
    assert engine.server.statistics().memstore_bytes == 0
    engine.server.stop()
    assert engine.fatal == []


def test_many_small_cells_are_checked_by_their_bytes_in_memory(tmp_path: Path) -> None:
    engine = Engine(tmp_path, Config(memstore_bytes_max=200_000), Clock(), Files(), Durability.OS)
    with pytest.raises(LimitExceededError, match="memstore_bytes_max"):  # However often it is sent.
        engine.change(b"r", *(Put(b"f", b"%d" % i, b"") for i in range(2000)))
    assert engine.server.statistics().memstore_bytes == 0
    engine.server.stop()


def held_while_replaying(lone: LoneRegion) -> list[int]:
    """The bytes that answers held after each record."""
    held: list[int] = []
    lone.steps.at_each(Step.REPLAYED, lambda: held.append(lone.parts.shared.request_ids.bytes_held))
    lone.crash()
    return held


def test_replay_holds_no_more_of_a_client_than_it_still_waits_for(lone: LoneRegion) -> None:
    for number in range(1, 80):
        lone.change(b"r%d" % number, Put(b"f", b"q", b"v" * 50_000), request=RequestId(b"c" * 16, number, number))
    held = held_while_replaying(lone)
    assert len(held) == 79
    assert max(held) < 2 * 50_000
    again = lone.change(b"r79", Put(b"f", b"q", b"other"), request=RequestId(b"c" * 16, 79, 79))
    assert again.repeated_request


@pytest.mark.parametrize("raises_floor", [True, False])
def test_replay_holds_little_of_many_clients(tmp_path: Path, raises_floor: bool) -> None:
    """Answers below a client's floor go as they are read; of clients that raise none, the bound holds."""
    bytes_max = 1 << 20
    lone = LoneRegion(tmp_path, Config(request_ids_bytes_max=bytes_max))
    for number in range(1, 40):
        requests = [RequestId(b"%016d" % client, number, number if raises_floor else 1) for client in range(100)]
        lone.mutate(
            *[RowMutation(b"%d" % i, (Put(b"f", b"q", b"v" * 5000),), None, (), r) for i, r in enumerate(requests)]
        )
    held = held_while_replaying(lone)
    assert len(held) == 3900
    assert max(held) < bytes_max
    assert lone.parts.shared.request_ids.bytes_held < bytes_max
    newest = RequestId(b"%016d" % 99, 39, 1)
    assert lone.change(b"99", Put(b"f", b"q", b"other"), request=newest).repeated_request
    lone.stop()
    assert lone.parts.shared.request_ids.bytes_held < bytes_max
