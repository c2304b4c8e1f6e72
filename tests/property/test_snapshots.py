"""Random writes, deletes, flushes and times: a snapshot always gives the model's answer at its moment.

Each case is made from the run's seed and its number; `check_snapshots(case, folder)` replays it.
"""

from __future__ import annotations

import random
import threading
from dataclasses import replace
from pathlib import Path

from rowlock_regionserver.cells import (
    DELETE_COLUMN,
    DELETE_FAMILY,
    DELETE_VERSION,
    PUT,
    Durability,
    Family,
    ReadPoint,
)
from rowlock_regionserver.clock import ManualClock
from rowlock_regionserver.config import Config
from rowlock_regionserver.host.region_server import RegionServer
from rowlock_regionserver.operations import (
    AnswerCell,
    Change,
    Delete,
    DeleteKind,
    Put,
    RowMutation,
    RowOutcome,
    ScanPlan,
    Selection,
    WriteOptions,
)
from rowlock_regionserver.region.region import Region

from tests.crash.simulated_files import UnsyncedFiles
from tests.drawn_cases import case_count
from tests.property.list_source import Write
from tests.property.scan_model import Model
from tests.seeds import generator_of

CASES = range(case_count(8, 3))
STEPS = 250
# Few, so that a flush meets versions that only a snapshot sees.
ROWS = [b"a", b"a\x00", b"\xff"]
QUALIFIERS = [b"", b"q"]
PLAN = ScanPlan(Selection(versions=5))
WAIT_S = 30.0
_KINDS = {
    DELETE_VERSION: DeleteKind.VERSION,
    DELETE_COLUMN: DeleteKind.COLUMN,
    DELETE_FAMILY: DeleteKind.FAMILY,
}


def test_a_snapshot_answers_what_was_there_at_its_moment_whenever_it_is_read(tmp_path: Path) -> None:
    compared = sum(check_snapshots(case, tmp_path / str(case)) for case in CASES)
    # The test would prove little if most snapshots were empty.
    assert compared > 100, compared


def check_snapshots(case: int, folder: Path) -> int:
    """Runs one case; returns how many cells were compared."""
    generator = generator_of(case)
    clock = ManualClock()
    failures: list[BaseException] = []
    config = Config(log_segment_bytes=1 << 20, scan_window_bytes=300, flush_window_bytes=300)
    folder.mkdir()
    server = RegionServer.open(folder, config, clock, UnsyncedFiles(), failures.append)
    server.create_table("t", random_families(generator), Durability.OS)
    (region,) = server.regions_of("t")
    model = Model(region.table.families, (), ReadPoint(0, 0))
    moments: dict[bytes, Model] = {}
    compared = 0
    # Nothing of a column with a tombstone is dropped.
    kinds = [PUT] * 6 + list(_KINDS) if case % 2 else [PUT]
    for step in range(STEPS):
        match generator.choice(["write"] * 30 + ["flush", "time", "make", "make", "end", "read"]):
            case "write":
                model = replace(model, writes=(*model.writes, *written(region, clock, generator, kinds)))
            case "flush":
                server.flush("t")
            case "time":
                clock.advance(generator.choice([1, 10, 30]))
            case "make":
                snapshot_id = b"%016d" % step
                snapshot = server.make_snapshot("t", snapshot_id, 0, "")
                ((_, read_point),) = snapshot.read_points
                moments[snapshot_id] = replace(model, read_point=ReadPoint(read_point, snapshot.made_ms))
            case "end" if moments:
                ended = generator.choice(list(moments))
                server.snapshots.end(ended)
                del moments[ended]
            case "read" if moments:
                snapshot_id = generator.choice(list(moments))
                compared += compare(server, region, snapshot_id, moments[snapshot_id], case)
    for snapshot_id, moment in moments.items():
        compared += compare(server, region, snapshot_id, moment, case)
    server.stop()
    assert not failures
    return compared


def random_families(generator: random.Random) -> list[Family]:
    return [
        Family(
            0,
            name,
            versions=generator.randint(1, 3),
            min_versions=generator.randint(0, 1),
            time_to_live_ms=generator.choice([0, 0, 25]),
            block_bytes=4096,
        )
        for name in (b"f", b"g")
    ]


def written(region: Region, clock: ManualClock, generator: random.Random, kinds: list[int]) -> list[Write]:
    """Makes one random change of a row; returns its cells."""
    row, family, qualifier = generator.choice(ROWS), generator.choice([b"f", b"g"]), generator.choice(QUALIFIERS)
    timestamp = clock.now_ms() + generator.randint(-20, 5)
    kind = generator.choice(kinds)
    value = b"%d" % generator.randrange(1000) if kind == PUT else b""
    if kind == DELETE_FAMILY:
        qualifier = b""
    change: Change
    if kind == PUT:
        change = Put(family, qualifier, value, timestamp)
    else:
        change = Delete(_KINDS[kind], family, qualifier, timestamp)
    told = threading.Event()
    outcomes: list[RowOutcome] = []

    def done(them: list[RowOutcome]) -> None:
        outcomes.extend(them)
        told.set()

    options = WriteOptions(clock.monotonic() + WAIT_S)
    assert region.mutate([RowMutation(row, (change,))], options, done, may_wait=True)
    assert told.wait(WAIT_S)
    assert not isinstance(outcomes[0], Exception), outcomes
    return [Write(row, family, qualifier, timestamp, region.statistics().read_point, kind, value)]


def compare(server: RegionServer, region: Region, snapshot_id: bytes, moment: Model, case: int) -> int:
    expected = [(row, cell) for row, cells in moment.scan(PLAN, b"", b"") for cell in cells]
    found: list[tuple[bytes, AnswerCell]] = []
    with server.region_at(region.region_id, snapshot_id).scan(PLAN) as (read_point, answers):
        assert read_point == moment.read_point.write_number
        for answer in answers:
            for row, *cell in zip(*(column.to_pylist() for column in answer.table.columns), strict=True):
                found.append((row, tuple(cell)))
    assert found == expected, f"case {case}, snapshot {snapshot_id!r}"
    return len(expected)
