"""A crash in the middle of a table operation: it was done, or it was not; nothing else is lost, nothing is damaged."""

from __future__ import annotations

import contextlib
import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from rowlock_regionserver.cells import Durability, Family
from rowlock_regionserver.clock import Clock
from rowlock_regionserver.config import Config
from rowlock_regionserver.errors import RegionServerError, UnknownOutcomeError
from rowlock_regionserver.files import Files
from rowlock_regionserver.host.region_server import RegionServer
from rowlock_regionserver.operations import Put, RowMutation, ScanPlan, WriteOptions

from tests.crash.orphans import orphans
from tests.crash.simulated_files import Loss, SimulatedCrash, SimulatedFiles
from tests.drawn_cases import drawn
from tests.unit.region.conftest import abandon
from tests.waiting import WAIT_S

CONFIG = Config(log_segment_bytes=1 << 16, disk_free_bytes_min=0)
FAMILIES = [Family(0, b"f"), Family(0, b"g")]
# Each table's rows with their columns.
Content = Mapping[str, Mapping[bytes, list[bytes]]]

BEFORE: Content = {"kept": {b"r": [b"f", b"g"]}, "t": {b"flushed": [b"f", b"g"], b"logged": [b"f", b"g"]}}
# A step, and the content after it.
Steps = Sequence[tuple[Callable[[RegionServer], object], Content]]


def put(server: RegionServer, table: str, row: bytes, families: Sequence[bytes] = (b"f", b"g")) -> None:
    (region,) = server.regions_of(table)
    done = threading.Event()
    outcomes: list[object] = []
    mutation = RowMutation(row, tuple(Put(family, b"q", b"v") for family in families))
    options = WriteOptions(Clock().monotonic() + WAIT_S, Durability.FSYNC)

    def answered(found: object) -> None:
        outcomes.append(found)
        done.set()

    assert region.mutate([mutation], options, answered, may_wait=True)
    assert done.wait(WAIT_S)
    for outcome in outcomes[0] if isinstance(outcomes[0], list) else outcomes:
        if isinstance(outcome, RegionServerError):
            raise outcome


DROP: Steps = [(lambda server: server.drop_table("t"), {"kept": BEFORE["kept"]})]
OPERATIONS: Mapping[str, Steps] = {
    "create": [(lambda server: server.create_table("u", FAMILIES), {**BEFORE, "u": {}})],
    "drop": DROP,
    "drop and re-create": [
        *DROP,
        (lambda server: server.create_table("t", FAMILIES), {**BEFORE, "t": {}}),
        (lambda server: put(server, "t", b"logged", [b"f"]), {**BEFORE, "t": {b"logged": [b"f"]}}),
    ],
    "truncate": [(lambda server: server.truncate_table("t"), {**BEFORE, "t": {}})],
    "alter": [
        (
            lambda server: server.alter_table("t", set_families=[Family(0, b"h")], drop_families=[b"g"]),
            {**BEFORE, "t": {row: [b"f"] for row in BEFORE["t"]}},
        )
    ],
}


def content_of(server: RegionServer) -> Content:
    content: dict[str, dict[bytes, list[bytes]]] = {}
    for table in server.tables():
        rows = content[table.name] = {}
        (region,) = server.regions_of(table.name)
        with region.scan(ScanPlan()) as (_, answers):
            for answer in answers:
                for cell in answer.table.to_pylist():
                    rows.setdefault(cell["row"], []).append(cell["family"])
    return content


def test_a_crash_at_any_call_of_a_table_operation_leaves_it_done_or_not(tmp_path: Path) -> None:
    for operation in drawn(list(OPERATIONS), 2, "table operations"):
        check_crashes(tmp_path / operation, OPERATIONS[operation])


def check_crashes(folder: Path, steps: Steps) -> None:
    """Crashes at every call of the steps."""
    folder.mkdir()
    contents = [BEFORE, *[after for _, after in steps]]
    found_in = Counter[int]()
    for call in range(1, 100):
        disk = SimulatedFiles(folder / f"disk-{call}")
        server = RegionServer.open(disk.root, CONFIG, Clock(), disk, lambda _: None)
        for table in ("kept", "t"):
            server.create_table(table, FAMILIES)
        put(server, "kept", b"r")
        put(server, "t", b"flushed")
        server.flush("t")
        put(server, "t", b"logged")
        disk.crash_at(call)
        acknowledged = 0
        with contextlib.suppress(SimulatedCrash, UnknownOutcomeError):
            for operate, _ in steps:
                operate(server)
                acknowledged += 1
        has_crashed = disk.is_dead
        for loss in (Loss.NOTHING, Loss.ALL):
            image = disk.power_failure(folder / f"image-{call}-{loss.name}", loss)
            for restart in range(2):
                where = f"call {call}, {loss.name}, restart {restart}"
                again = RegionServer.open(image, CONFIG, Clock(), Files(), lambda _: None)
                assert again.damaged_regions() == {}, where
                found = content_of(again)
                assert found in contents[acknowledged : acknowledged + 2], where
                if restart:  # Until the first one's flush a manifest may name files of a dropped family.
                    assert orphans(again, image, Files()) is None, where
                again.stop()
                found_in[contents.index(found)] += has_crashed
        # Its threads still run.
        with contextlib.suppress(SimulatedCrash):
            abandon(server)
        if not has_crashed:
            break
    assert call > 5, "the crashes did not reach every call"
    assert acknowledged == len(steps)
    assert all(found_in[state] for state in range(len(contents))), "a state was never found after a crash"
