"""A store file is written completely and durably, or not at all."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import lmdb
import pyarrow as pa
import pytest
from rowlock_regionserver.cells import PUT, Kind
from rowlock_regionserver.durable_files import TEMPORARY_SUFFIX
from rowlock_regionserver.errors import DiskFullError
from rowlock_regionserver.files import Files
from rowlock_regionserver.storefile import container
from rowlock_regionserver.storefile import format as layout
from rowlock_regionserver.storefile.background_sync import BackgroundSync
from rowlock_regionserver.storefile.cell_properties import OutOfOrderError
from rowlock_regionserver.storefile.info import StoreFileInfo
from rowlock_regionserver.storefile.verify import verify_store_file
from rowlock_regionserver.storefile.writer import write_store_file

from tests.crash.simulated_files import Call, Loss, Moment, SimulatedCrash, SimulatedFiles
from tests.unit.storefile.store_file_case import (
    SMALL_FAMILY,
    Case,
    RowCell,
    cells_of,
    opened,
    rows_of,
    simple_cells,
    table_of,
)
from tests.waiting import WAIT_S


def read_all(path: Path, info: StoreFileInfo) -> list[RowCell]:
    with opened(path, info) as store_file:
        return sorted(cell for run in store_file.runs for cell in cells_of(run.read_rows(b"", b"", 1 << 30).table))


def run_python(program: str, folder: Path) -> str:
    """Runs the program as a process, with the folder as its argument; returns its output."""
    child = subprocess.run(
        [sys.executable, "-c", program, str(folder)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert child.returncode == 0, child.stderr
    return child.stdout


def test_the_info_tells_what_was_written(case: Case) -> None:
    cells: list[RowCell] = [
        (b"a", (b"", -9, -4, int(Kind.DELETE_FAMILY), b"")),
        (b"a", (b"q", -8, -3, int(Kind.DELETE_COLUMN), b"")),
        (b"a", (b"q", -7, -2, PUT, b"v")),
        (b"b", (b"q", -6, -5, int(Kind.DELETE_VERSION), b"")),
        (b"c", (b"q", -5, -6, PUT, b"w")),
    ]
    info = case.write(cells)
    assert (info.cell_count, info.row_count) == (5, 3)
    rows = case.open(info).rows
    assert (rows.first, rows.last) == (b"a", b"c")
    assert (info.write_number_min, info.write_number_max) == (2, 6)
    assert (info.timestamp_min, info.timestamp_max) == (5, 9)
    assert (info.delete_version_count, info.delete_column_count, info.delete_family_count) == (1, 1, 1)
    assert info.tombstone_count == 3
    assert info.has_versions
    assert info.file_bytes == case.path.stat().st_size


@pytest.mark.parametrize("table_cells", [1, 2, 7, 1000])
def test_tables_of_any_size_make_the_same_cells_and_properties(case: Case, table_cells: int) -> None:
    cells = simple_cells(40, 3)
    cells += [(b"s", (b"q", -10 - age, -1 - age, PUT, b"v" * 50)) for age in reversed(range(30))]
    whole = case.write(cells)
    info = case.write(cells, table_cells=table_cells)
    assert read_all(case.path, info) == cells
    assert verify_store_file(case.path, info, case.files) == []
    for name in ("cell_count", "row_count", "write_number_min", "write_number_max"):
        assert getattr(info, name) == getattr(whole, name)
    assert info.has_versions


def test_versions_are_noticed_across_tables(case: Case) -> None:
    cells: list[RowCell] = [(b"a", (b"q", -2, -2, PUT, b"")), (b"a", (b"q", -1, -1, PUT, b""))]
    assert case.write(cells, table_cells=1).has_versions
    assert not case.write([cells[0], (b"b", cells[1][1])], table_cells=1).has_versions


def test_blocks_are_about_as_large_as_the_family_says_and_end_with_rows(case: Case) -> None:
    cells = simple_cells(500, 2, value_bytes=50)
    case.family = replace(case.family, block_bytes=2000)
    store_file = case.written(cells, cache_bytes=0)
    boundaries = store_file.row_weights()
    assert len(boundaries) == store_file.info.block_count, "a row begins in one block and ends in another"
    cell_bytes = 50 + 4 + 6 + 29
    assert 0.5 < len(cells) * cell_bytes / store_file.info.block_count / 2000 <= 1


def test_the_info_goes_to_json_and_back(case: Case) -> None:
    info = case.write([(b"\x00\xff", (b"q", -1, -1, PUT, b""))])
    assert StoreFileInfo.from_json(json.loads(json.dumps(info.to_json()))) == info


@pytest.mark.parametrize(
    "change",
    [
        {"cell_count": "1"},
        {"cell_count": -1},
        {"cell_count": True},
        {"has_versions": 1},
    ],
)
def test_a_description_that_is_not_an_info_is_refused(case: Case, change: dict[str, object]) -> None:
    description = case.write(simple_cells(1)).to_json()
    with pytest.raises(ValueError, match=r".+"):
        StoreFileInfo.from_json({**description, **change})


def test_a_description_may_say_more_and_not_less(case: Case) -> None:
    info = case.write(simple_cells(1))
    # As in manifests of earlier versions.
    assert StoreFileInfo.from_json({**info.to_json(), "first_row": "00", "last_row": "00"}) == info
    for name in info.to_json():
        less = {other: value for other, value in info.to_json().items() if other != name}
        with pytest.raises(ValueError, match=name):
            StoreFileInfo.from_json(less)


def test_a_description_does_not_grow_with_the_rows(case: Case) -> None:
    def description(key_bytes: int) -> str:
        return json.dumps(case.write([(bytes(key_bytes), (b"q", -1, -1, PUT, b""))]).to_json())

    assert abs(len(description(30_000)) - len(description(1))) < 20


def test_lmdb_finds_the_blocks_in_order_in_its_own_file(case: Case) -> None:
    cells = [(row * 90 + b"\0", cell) for row, cell in simple_cells(50)]
    info = case.write(cells)
    with lmdb.open(str(case.path), subdir=False, readonly=True, lock=False, max_dbs=2) as environment:
        database = environment.open_db(layout.BLOCKS_DATABASE, create=False)
        with environment.begin(db=database) as transaction:
            entries = list(transaction.cursor())
        metadata = environment.open_db(layout.METADATA_DATABASE, create=False)
        with environment.begin(db=metadata) as transaction:
            assert transaction.get(layout.METADATA_KEY)
    assert len(entries) == info.block_count > 10
    assert [int.from_bytes(key[-8:], "big") for key, _ in entries] == list(range(info.block_count))
    assert all(len(key) <= 511 for key, _ in entries)


def test_a_map_that_is_too_small_grows(case: Case) -> None:
    cells = simple_cells(300, 1, value_bytes=1000)
    info = write_store_file(case.path, [table_of(cells)], SMALL_FAMILY, case.files, number=1, map_bytes=64 * 1024)
    assert info.file_bytes > 10 * 64 * 1024
    assert read_all(case.path, info) == cells


def test_several_transactions_make_one_file(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(container, "TRANSACTION_BYTES", 1)
    cells = simple_cells(200)
    info = case.write(cells)
    assert info.block_count > 20
    assert read_all(case.path, info) == cells
    assert verify_store_file(case.path, info, case.files) == []


@pytest.mark.parametrize("table_cells", [1, 10])
@pytest.mark.parametrize(
    "swapped",
    [
        [(b"b", (b"q", -1, -1, PUT, b"")), (b"a", (b"q", -1, -1, PUT, b""))],
        [(b"a", (b"r", -1, -1, PUT, b"")), (b"a", (b"q", -1, -1, PUT, b""))],
        [(b"a", (b"q", -1, -1, PUT, b"")), (b"a", (b"q", -2, -1, PUT, b""))],
        [(b"a", (b"q", -1, -1, PUT, b"")), (b"a", (b"q", -1, -2, PUT, b""))],
    ],
)
def test_cells_out_of_order_are_refused_and_leave_nothing(case: Case, swapped: list[RowCell], table_cells: int) -> None:
    with pytest.raises(OutOfOrderError):
        case.write(swapped, table_cells=table_cells)
    assert case.files.list_folder(case.folder) == []


def test_the_file_is_synced_before_it_is_renamed_and_its_folder_after(disk: SimulatedFiles) -> None:
    Case(disk.root, disk).write(simple_cells(10))
    assert [(call.name, call.path.name) for call in disk.calls] == [
        ("create", "store-1" + TEMPORARY_SUFFIX),
        ("fsync", "store-1" + TEMPORARY_SUFFIX),
        ("rename", "store-1"),
        ("fsync_folder", disk.root.name),
    ]


@pytest.fixture
def synced_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small transactions, and each waits for its sync, so that the calls of a write are always the same."""
    start = BackgroundSync.start

    def start_and_wait(sync: BackgroundSync) -> None:
        start(sync)
        sync.wait()

    monkeypatch.setattr(container, "TRANSACTION_BYTES", 55_000)
    monkeypatch.setattr(BackgroundSync, "start", start_and_wait)


LARGE_CELLS = simple_cells(50, 1, value_bytes=1000)
LARGE_STEPS = ["create", "fdatasync", "fdatasync", "fdatasync", "fsync", "rename", "fsync_folder"]


@pytest.mark.usefixtures("synced_at_once")
def test_a_large_file_is_synced_as_it_grows(disk: SimulatedFiles) -> None:
    """One sync of all of it would make the syncs of all other files wait."""
    unsynced_bytes: list[int] = []
    synced_bytes = 0

    def note(call: Call) -> None:
        nonlocal synced_bytes
        if call.name in ("fdatasync", "fsync"):
            file_bytes = call.path.stat().st_size
            unsynced_bytes.append(file_bytes - synced_bytes)
            synced_bytes = file_bytes

    disk.before_call = note
    info = Case(disk.root, disk).write(LARGE_CELLS)
    assert [call.name for call in disk.calls] == LARGE_STEPS
    assert synced_bytes == info.file_bytes
    assert max(unsynced_bytes) < info.file_bytes // 2


def test_a_slow_sync_holds_up_no_piece_of_the_file(disk: SimulatedFiles, monkeypatch: pytest.MonkeyPatch) -> None:
    """The pieces of a flush are made with a permit, which others wait for."""
    monkeypatch.setattr(container, "TRANSACTION_BYTES", 1)
    cells = simple_cells(2000, 1, value_bytes=1000)
    all_made = threading.Event()
    waited: list[bool] = []

    def pieces() -> Iterator[pa.Table]:
        for start in range(0, len(cells), 100):
            yield table_of(cells[start : start + 100])
        all_made.set()

    def hang(call: Call) -> None:
        if call.name == "fdatasync" and not waited:
            waited.append(all_made.wait(WAIT_S))

    disk.before_call = hang
    path = disk.root / "store-1"
    info = write_store_file(path, pieces(), SMALL_FAMILY, disk, number=1)
    assert waited == [True]
    assert read_all(path, info) == cells


def test_a_store_file_is_closed_when_its_last_sync_has_ended(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise the descriptor's number may be another file's when the thread comes to sync it."""
    monkeypatch.setattr(container, "TRANSACTION_BYTES", 1)
    events: list[str] = []

    class SlowFiles(Files):
        def fdatasync(self, descriptor: int) -> None:
            time.sleep(0.1)
            super().fdatasync(descriptor)
            events.append("synced")

        def close(self, descriptor: int) -> None:
            events.append("closed")
            super().close(descriptor)

    with container.Container(case.path, SlowFiles()) as written:
        written.put_block(layout.BLOCKS_DATABASE, b"key", b"v" * (written.page_bytes + 1))
    assert events == ["synced", "closed"]


@pytest.mark.usefixtures("synced_at_once")
@pytest.mark.parametrize("failing", [1, 2, 3])
def test_a_file_whose_sync_failed_is_removed_and_not_synced_again(disk: SimulatedFiles, failing: int) -> None:
    disk.fail_at(1 + failing, errno.EIO)
    with pytest.raises(OSError, match=os.strerror(errno.EIO)):
        Case(disk.root, disk).write(LARGE_CELLS)
    assert [call.name for call in disk.calls] == ["create", *["fdatasync"] * failing, "remove"]
    assert disk.list_folder(disk.root) == []


def test_what_was_written_survives_the_loss_of_everything_unsynced(disk: SimulatedFiles, tmp_path: Path) -> None:
    cells = simple_cells(50)
    info = Case(disk.root, disk).write(cells)
    after = disk.power_failure(tmp_path / "after", Loss.ALL)
    assert read_all(after / "store-1", info) == cells


@pytest.mark.usefixtures("synced_at_once")
@pytest.mark.parametrize("moment", Moment)
@pytest.mark.parametrize("call", range(1, 1 + len(LARGE_STEPS)))
def test_a_crash_at_any_call_leaves_no_file_or_a_whole_one_and_the_next_try_works(
    disk: SimulatedFiles, tmp_path: Path, call: int, moment: Moment
) -> None:
    cells = LARGE_CELLS
    crashing = Case(disk.root, disk)
    disk.crash_at(call, moment)
    with pytest.raises(SimulatedCrash):
        crashing.write(cells)
    for number, loss in enumerate(Loss):
        after = Case(disk.power_failure(tmp_path / f"after-{number}", loss, seed=number), Files())
        was_there = after.path.exists()
        before = after.path.read_bytes() if was_there else b""
        info = after.write(cells)
        assert read_all(after.path, info) == cells
        assert after.files.list_folder(after.folder) == ["store-1"]
        assert not was_there or before == after.path.read_bytes()


@pytest.mark.usefixtures("synced_at_once")
@pytest.mark.parametrize("error_number", [errno.ENOSPC, errno.EDQUOT, errno.EIO])
@pytest.mark.parametrize("name", ["fdatasync", "fsync", "rename", "fsync_folder"])
def test_a_failure_of_a_call_leaves_nothing_and_the_next_try_works(
    disk: SimulatedFiles, name: str, error_number: int
) -> None:
    case = Case(disk.root, disk)
    disk.fail_next(name, error_number)
    expected: type[Exception] = OSError if error_number == errno.EIO else DiskFullError
    with pytest.raises(expected):
        case.write(LARGE_CELLS)
    assert disk.list_folder(disk.root) == []

    def nothing(call: Call) -> None:
        pass

    disk.before_call = nothing
    info = case.write(LARGE_CELLS)
    assert read_all(case.path, info) == LARGE_CELLS


_WRITE_WITH_A_FILE_SIZE_LIMIT = """
import resource, sys
from pathlib import Path
from rowlock_regionserver.errors import DiskFullError
from rowlock_regionserver.files import Files
from tests.unit.storefile.store_file_case import Case, simple_cells

case = Case(Path(sys.argv[1]), Files())
# The disk takes a part of a large write, or nothing of it.
for limit in (200_000, 8192):
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
    try:
        case.write(simple_cells(2000))
    except DiskFullError as error:
        print(error.__cause__.strerror, case.files.list_folder(case.folder))
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
print(case.write(simple_cells(2000)).cell_count)
"""


def test_a_write_that_lmdb_could_not_make_whole_leaves_nothing_and_the_next_try_works(case: Case) -> None:
    told = run_python(_WRITE_WITH_A_FILE_SIZE_LIMIT, case.folder).splitlines()
    assert told == [
        "LMDB: mdb_txn_commit: Input/output error []",
        "LMDB: mdb_txn_commit: File too large []",
        "2000",
    ]


_WITH_LITTLE_ADDRESS_SPACE = """
import resource, sys
from pathlib import Path
from rowlock_regionserver.errors import OutOfMemoryError
from rowlock_regionserver.files import Files
from rowlock_regionserver.storefile.container import Container

path = Path(sys.argv[1]) / "large"
used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + (512 << 20), resource.RLIM_INFINITY))
try:
    Container(path, Files())
except OutOfMemoryError as error:
    print(str(path) in str(error))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not limit address space")
def test_a_lack_of_address_space_is_no_failure_of_the_disk(case: Case) -> None:
    """The server ended at its first flush under `ulimit -v`, and blamed the disk."""
    assert run_python(_WITH_LITTLE_ADDRESS_SPACE, case.folder).strip() == "True"


def test_an_error_of_lmdb_when_it_reads_back_names_the_file(case: Case) -> None:
    """It escaped as lmdb.Error, which no caller expects of a disk."""
    with container.Container(case.path, case.files) as written:
        written.put_block(layout.BLOCKS_DATABASE, b"key", b"v" * (written.page_bytes + 1))
        written.commit_blocks()
    with pytest.raises(OSError, match=rf"LMDB: .*closed.*{case.path.name}"):
        written.block_offsets(layout.BLOCKS_DATABASE)


def test_a_leftover_temporary_file_is_not_added_to(case: Case) -> None:
    leftover = case.path.with_name(case.path.name + TEMPORARY_SUFFIX)
    leftover.write_bytes(b"garbage" * 10_000)
    cells = simple_cells(10)
    assert read_all(case.path, case.write(cells)) == cells
    assert not leftover.exists()


def test_a_value_that_lmdb_did_not_put_where_it_says_fails_the_write(
    case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = container.Container.block_offsets
    monkeypatch.setattr(
        container.Container, "block_offsets", lambda self, database: [place + 8 for place in real(self, database)]
    )
    with pytest.raises(Exception, match="damaged"):
        case.write(simple_cells(10))
    assert case.files.list_folder(case.folder) == []


def test_rows_of_a_file_without_a_bloom_filter_are_still_counted(case: Case) -> None:
    case.family = replace(case.family, bloom_filter=False)
    cells = simple_cells(20, 3)
    assert case.write(cells).row_count == len(rows_of(cells))


_IMPORT = """
import sys
from pathlib import Path
from tests.unit.storefile.store_file_case import Case, simple_cells
from rowlock_regionserver.files import Files
case = Case(Path(sys.argv[1]), Files())
store_file = case.written(simple_cells(50))
store_file.row_cells(b"r00003")
store_file.read_rows(b"", b"", 1)
print([name for name in ("pandas", "pyarrow.dataset", "pyarrow.parquet") if name in sys.modules])
"""


def test_neither_writing_nor_reading_imports_what_is_slow_to_import(case: Case) -> None:
    assert run_python(_IMPORT, case.folder) == "[]\n"
