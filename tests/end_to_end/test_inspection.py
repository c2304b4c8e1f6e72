"""verify and salvage on the folder of a real server that was killed, intact and with every kind of damage."""

from __future__ import annotations

import io
import os
import random
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pa_parquet
import pytest
import rowlock
from rowlock.pytest_plugin import RowlockServer
from rowlock_regionserver.data_folder import DataFolder
from rowlock_regionserver.errors import CorruptionError
from rowlock_regionserver.files import Files
from rowlock_regionserver.inspection import salvage, verify
from rowlock_regionserver.wal.recovery import read_log

from tests.end_to_end.server_command import ServerCommand
from tests.seeds import drawn_seed

# (row, family, qualifier, timestamp, value)
CellValue = tuple[bytes, bytes, bytes, int, bytes]
ROW_COUNT = 300
OPTIONS = ("--config", "log_segment_bytes=1MiB", "--config", "bulk_file_bytes_min=64KiB")


@dataclass(frozen=True)
class Left:
    """The folder of a killed server, and the cells of its tables as they were read before."""

    folder: Path
    cells: dict[str, list[CellValue]]

    def copy(self, target: Path) -> Left:
        shutil.copytree(self.folder, target, ignore=shutil.ignore_patterns("direct"))
        return Left(target, self.cells)

    def files(self, pattern: str) -> list[Path]:
        found = sorted(self.folder.glob(pattern))
        assert found, f"{self.folder} has no {pattern}"
        return found

    @property
    def log_bytes(self) -> int:
        """Returns how many bytes of the last segment are used."""
        recovered = read_log(self.folder / "log", Files(), lambda *_: None)
        return recovered.proven_bytes


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Left:
    """Table `old`: flushed twice, then changed in the log. Table `young`: a bulk file and a small bulk batch."""
    folder = tmp_path_factory.mktemp("inspection")
    server = RowlockServer(folder / "data", folder / "server.log", OPTIONS)
    server.start()
    try:
        with rowlock.connect(server.address) as client:
            families = {"a": rowlock.Family(versions=3, compression="none"), "b": rowlock.Family(compression="zstd")}
            old = client.create_table("old", families)
            with old.batch() as batch:
                for number in range(ROW_COUNT):
                    data = {b"a:n": b"%d" % number, b"a:text": bytes([number % 256]) * 3000, b"b:text": b"x" * 500}
                    batch.put(b"r%03d" % number, data, timestamp=1000)
            client.flush("old")
            with old.batch() as batch:
                for number in range(0, ROW_COUNT, 3):
                    batch.put(b"r%03d" % number, {b"a:n": b"again %d" % number}, timestamp=2000)
            old.delete(b"r007")
            client.flush("old")
            old.delete(b"r008")
            old.increment(b"counter", b"b:n", 42)
            old.mutate_row(b"r010", [rowlock.Delete(b"a:n"), rowlock.Put(b"a:n", b"after", 3000)])
            young = client.create_table("young", {"f": rowlock.Family()})
            for first, count in ((0, 1000), (1000, 3)):
                young.put_arrow(
                    pa.table(
                        {
                            "row": [b"k%05d" % number for number in range(first, first + count)],
                            "family": [b"f"] * count,
                            "qualifier": [b"q"] * count,
                            "value": [b"%0100d" % number for number in range(first, first + count)],
                        },
                        schema=pa.schema([(name, pa.binary()) for name in ("row", "family", "qualifier", "value")]),
                    )
                )
            cells = {name: cells_of(client.table(name)) for name in ("old", "young")}
    finally:
        server.kill()
    assert len(cells["young"]) == 1003
    return Left(folder / "data", cells)


@pytest.fixture
def left(template: Left, tmp_path: Path) -> Left:
    return template.copy(tmp_path / "data")


def cells_of(table: rowlock.Table[bytes]) -> list[CellValue]:
    found = []
    for cell in table.scan(versions=100).cells():
        family, _, qualifier = cell.column.partition(b":")
        found.append((cell.row, family, qualifier, cell.timestamp, cell.value))
    return found


def run_verify(folder: Path) -> tuple[int, str, str]:
    stdout, stderr = io.StringIO(), io.StringIO()
    return verify.main([str(folder)], stdout, stderr), stdout.getvalue(), stderr.getvalue()


def run_salvage(folder: Path, out: Path) -> tuple[int, str, str]:
    stdout, stderr = io.StringIO(), io.StringIO()
    return salvage.main([str(folder), str(out)], stdout, stderr), stdout.getvalue(), stderr.getvalue()


def salvaged(out: Path, name: str) -> list[CellValue]:
    columns = pa_parquet.read_table(out / f"{name}.parquet").to_pydict()
    assert list(columns) == ["row", "family", "qualifier", "timestamp", "value"]
    return list(zip(*columns.values(), strict=True))


def flip(path: Path, offset: int) -> None:
    with path.open("r+b") as file:
        file.seek(offset)
        (byte,) = file.read(1)
        file.seek(offset)
        file.write(bytes([byte ^ 1 << offset % 8]))


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_killed_servers_folder_is_whole(left: Left) -> None:
    exit_code, out, err = run_verify(left.folder)
    assert (exit_code, err) == (0, "")
    assert out.startswith("intact: 2 tables, 2 regions, 0 named snapshots, 4 store files, 1 log segments with ")
    assert out.endswith("1 bulk files, 0 open bulk writes; 0 damaged places\n")


def test_salvage_of_a_whole_folder_gives_every_cell(left: Left, tmp_path: Path) -> None:
    out = tmp_path / "out"
    exit_code, report, err = run_salvage(left.folder, out)
    assert (exit_code, err) == (0, "")
    assert {name: salvaged(out, name) for name in left.cells} == left.cells
    assert (out / "report.txt").read_text() == report
    assert f"table young: 1003 rows, 1003 cells in {out / 'young.parquet'}\n" in report
    assert report.endswith("nothing is damaged\n")


def test_salvage_refuses_a_folder_inside_the_data_folder(left: Left) -> None:
    exit_code, _, err = run_salvage(left.folder, left.folder / "out")
    assert exit_code == 2
    assert "is inside the data folder" in err
    assert not (left.folder / "out").exists()


def test_salvage_onto_a_full_disk_leaves_nothing(left: Left, tmp_path: Path) -> None:
    """It left a part of a file, so the next try was refused until somebody removed that; and did not say where."""
    out, program = tmp_path / "out", ("/bin/sh", "-c", 'ulimit -f 1; exec "$@"', "sh", sys.executable)
    for _ in range(2):
        ran = subprocess.run(
            [*program, "-m", "rowlock_regionserver", "salvage", str(left.folder), str(out)],
            capture_output=True,
            text=True,
        )
        assert (ran.returncode, ran.stdout) == (2, "")
        assert ran.stderr == f"rowlock-server salvage: {out}: File too large\n"
        assert not out.exists()


def test_salvage_of_tables_with_the_longest_names_gives_one_file_each(tmp_path: Path) -> None:
    names = ["a", "b" * 254 + "1", "b" * 254 + "2", "b" * 247, "c"]
    server = RowlockServer(tmp_path / "data", tmp_path / "server.log")
    server.start()
    try:
        with rowlock.connect(server.address) as client:
            for name in names:
                client.create_table(name, ["f"]).put(b"r", {b"f:name": name})
    finally:
        server.kill()
    damage: list[CorruptionError] = []
    tables = salvage.salvage(tmp_path / "data", tmp_path / "out", Files(), damage)
    assert damage == []
    assert [table.name for table in tables] == sorted(names)
    for table in tables:
        assert pa_parquet.read_table(table.path).column("value").to_pylist() == [table.name.encode()]


def test_inspection_changes_nothing(left: Left, tmp_path: Path) -> None:
    before = contents(left.folder)
    run_verify(left.folder)
    run_salvage(left.folder, tmp_path / "out")
    assert contents(left.folder) == before


@pytest.mark.parametrize(
    "pattern", ["catalog/*", "regions/*/manifest-*", "regions/*/*.store", "log/*.wal", "bulk/*.bulk"]
)
def test_a_flipped_bit_anywhere_is_found_and_its_file_named(left: Left, pattern: str) -> None:
    seed = drawn_seed()
    places = random.Random(seed)
    for path in left.files(pattern):
        if path.name == "spare.wal":
            continue
        size = left.log_bytes if path.suffix == ".wal" else path.stat().st_size
        for offset in sorted({0, size - 1, *(places.randrange(size) for _ in range(10))}):
            flip(path, offset)
            exit_code, out, err = run_verify(left.folder)
            assert (exit_code, err) == (1, ""), f"{path} at {offset}: {out}"
            assert f"damaged: {path} at byte " in out
            flip(path, offset)
    assert run_verify(left.folder)[0] == 0


@pytest.mark.parametrize("pattern", ["regions/*/*.store", "bulk/*.bulk"])
def test_a_file_that_is_missing_or_cut_is_named(left: Left, pattern: str) -> None:
    for path in left.files(pattern):
        whole = path.read_bytes()
        os.truncate(path, len(whole) - 1)
        exit_code, out, _ = run_verify(left.folder)
        assert (exit_code, str(path) in out) == (1, True)
        path.unlink()
        exit_code, out, _ = run_verify(left.folder)
        assert (exit_code, str(path) in out) == (1, True)
        path.write_bytes(whole)
    assert run_verify(left.folder)[0] == 0


def test_a_damaged_block_loses_its_own_rows_only(left: Left, tmp_path: Path) -> None:
    largest = max(left.files("regions/*/*.store"), key=lambda path: path.stat().st_size)
    # Half way through 0.9 MB of blocks of 128 KiB, each with some 40 rows.
    flip(largest, largest.stat().st_size // 2)
    exit_code, report, _ = run_salvage(left.folder, tmp_path / "out")
    assert exit_code == 1
    assert f"damaged: {largest} at byte " in report
    assert salvaged(tmp_path / "out", "young") == left.cells["young"]
    found = salvaged(tmp_path / "out", "old")
    # Only this file has the column a:text; salvage must not invent cells.
    assert set(found) < set(left.cells["old"])
    lost = {row for row, family, qualifier, _, _ in set(left.cells["old"]) - set(found)}
    assert 0 < len(lost) < ROW_COUNT / 3


def test_a_server_that_starts_with_damage_says_so_in_its_ready_line(left: Left) -> None:
    lost = left.files("regions/1/*.store")[0]
    lost.unlink()
    with ServerCommand("--data", left.folder, "--listen", "127.0.0.1:0") as server:
        assert server.process.stdout is not None
        line = server.process.stdout.readline()
        match = re.fullmatch(r"rowlock-server ready on (\S+), data in (.*), (\d+\.\d\d) s; (.*)\n", line)
        assert match is not None, line
        assert match[4].startswith(f"damaged and closed: region 1 of table 'old' ({lost}); ")
        with rowlock.connect(match[1]) as client:
            assert cells_of(client.table("young")) == left.cells["young"]
            with pytest.raises(rowlock.CorruptionError, match="restore it") as refusal:
                client.table("old").row(b"r001")
            assert str(lost) in str(refusal.value)
    exit_code, out, _ = run_verify(left.folder)
    assert exit_code == 1
    assert f"damaged: {lost} at byte 0: " in out


def test_a_store_file_without_its_metadata_gives_its_blocks(left: Left, tmp_path: Path) -> None:
    for path in left.files("regions/*/*.store"):
        raw = path.read_bytes()
        assert raw.count(b"rlmetad\x01") == 1, f"where is the metadata of {path}?"
        # After the header of 64 bytes.
        flip(path, raw.index(b"rlmetad\x01") + 70)
    exit_code, _, _ = run_salvage(left.folder, tmp_path / "out")
    assert exit_code == 1
    assert {name: salvaged(tmp_path / "out", name) for name in left.cells} == left.cells


def test_a_region_without_its_manifest_is_found_by_the_names_of_its_files(left: Left, tmp_path: Path) -> None:
    for path in left.files("regions/*/manifest-*"):
        flip(path, 40)
    exit_code, _, _ = run_salvage(left.folder, tmp_path / "out")
    assert exit_code == 1
    assert {name: salvaged(tmp_path / "out", name) for name in left.cells} == left.cells


def go_on(left: Left, change: Callable[[rowlock.Client], object]) -> dict[str, list[CellValue]]:
    """Runs the server on the folder again, reads the cells and kills it. Returns the cells."""
    server = RowlockServer(left.folder, left.folder.with_name("server.log"), OPTIONS)
    server.start()
    try:
        with rowlock.connect(server.address) as client:
            change(client)
            return {name: cells_of(client.table(name)) for name in client.tables()}
    finally:
        server.kill()


def put_many(client: rowlock.Client) -> None:
    """More than a segment of the log."""
    with client.table("old").batch() as batch:
        for number in range(ROW_COUNT):
            batch.put(b"later%03d" % number, {b"a:text": bytes(8000)}, timestamp=4000)


def test_an_older_manifest_is_not_taken_for_the_newest(left: Left, tmp_path: Path) -> None:
    def put_and_flush(client: rowlock.Client) -> None:
        put_many(client)
        client.flush("old")
        client.flush("young")

    expected = go_on(left, put_and_flush)
    # The log no longer has the cells of the newest files, and the manifest before does not name the files.
    assert not (left.folder / "log" / "0000000001.wal").exists()
    for folder in left.files("regions/*"):
        flip(sorted(folder.glob("manifest-*"))[-1], 40)
    assert run_salvage(left.folder, tmp_path / "out")[0] == 1
    assert {name: salvaged(tmp_path / "out", name) for name in expected} == expected


def test_a_bulk_file_that_was_flushed_is_not_missed(left: Left, tmp_path: Path) -> None:
    expected = go_on(left, lambda client: client.flush("young"))
    assert not list(left.folder.glob("bulk/*"))
    assert run_verify(left.folder)[0] == 0
    assert run_salvage(left.folder, tmp_path / "out")[0] == 0
    assert {name: salvaged(tmp_path / "out", name) for name in expected} == expected


def test_with_a_damaged_catalog_the_tables_of_the_one_before_are_found(left: Left, tmp_path: Path) -> None:
    flip(left.files("catalog/*")[-1], 40)
    exit_code, _, _ = run_salvage(left.folder, tmp_path / "out")
    assert exit_code == 1
    assert salvaged(tmp_path / "out", "old") == left.cells["old"]
    assert not (tmp_path / "out" / "young.parquet").exists()
    assert salvaged(tmp_path / "out", "region~2") == unnamed(left.cells["young"])


def unnamed(cells: list[CellValue]) -> list[CellValue]:
    """Returns the cells as they are written without a catalog: families are numbers, in order of their names."""
    names = sorted({family for _, family, _, _, _ in cells})
    return [
        (row, b"%d" % (1 + names.index(family)), qualifier, timestamp, value)
        for row, family, qualifier, timestamp, value in cells
    ]


def test_without_the_newest_catalog_its_table_is_found_without_a_name(left: Left, tmp_path: Path) -> None:
    lost = left.files("catalog/*")[-1]
    lost.unlink()
    exit_code, out, _ = run_verify(left.folder)
    assert exit_code == 1
    assert f"damaged: {lost} at byte 0: " in out
    exit_code, report, _ = run_salvage(left.folder, tmp_path / "out")
    assert exit_code == 1
    assert f"damaged: {lost} at byte 0: " in report
    assert salvaged(tmp_path / "out", "old") == left.cells["old"]
    assert salvaged(tmp_path / "out", "region~2") == unnamed(left.cells["young"])
    with ServerCommand("--data", left.folder, "--listen", "127.0.0.1:0") as server:
        exit_code, _, errors = server.ended()
    assert exit_code == 2
    assert str(lost) in errors


def test_without_any_catalog_regions_are_found_without_names(left: Left, tmp_path: Path) -> None:
    for path in left.files("catalog/*"):
        flip(path, 40)
    exit_code, report, _ = run_salvage(left.folder, tmp_path / "out")
    assert exit_code == 1
    assert "expected a catalog that names the regions" in report
    assert salvaged(tmp_path / "out", "region~1") == unnamed(left.cells["old"])
    assert salvaged(tmp_path / "out", "region~2") == unnamed(left.cells["young"])


def test_a_damaged_record_loses_its_own_change_only(left: Left, tmp_path: Path) -> None:
    [segment] = left.files("log/0*.wal")
    place = segment.read_bytes().index(b"counter")
    flip(segment, place)
    exit_code, report, _ = run_salvage(left.folder, tmp_path / "out")
    assert exit_code == 1
    assert f"damaged: {segment} at byte " in report
    assert salvaged(tmp_path / "out", "young") == left.cells["young"]
    expected = [cell for cell in left.cells["old"] if cell[0] != b"counter"]
    assert salvaged(tmp_path / "out", "old") == expected


def test_a_segment_with_a_damaged_header_still_gives_its_records(left: Left, tmp_path: Path) -> None:
    # The log's id is known from the other segments, so there must be some.
    expected = go_on(left, put_many)["old"]
    segments = left.files("log/0*.wal")
    assert len(segments) > 2
    flip(segments[1], 20)
    exit_code, report, _ = run_salvage(left.folder, tmp_path / "out")
    assert exit_code == 1
    assert f"damaged: {segments[1]} at byte " in report
    assert salvaged(tmp_path / "out", "old") == expected


def test_a_damaged_bulk_file_loses_its_own_batch_only(left: Left, tmp_path: Path) -> None:
    [bulk_file] = left.files("bulk/*.bulk")
    flip(bulk_file, 1000)
    exit_code, report, _ = run_salvage(left.folder, tmp_path / "out")
    assert exit_code == 1
    assert f"damaged: {bulk_file} at byte " in report
    assert salvaged(tmp_path / "out", "old") == left.cells["old"]
    assert salvaged(tmp_path / "out", "young") == left.cells["young"][1000:]


def test_folders_that_are_in_use_or_not_ours_are_refused(left: Left, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    for folder in (tmp_path / "nosuch", tmp_path / "other", left.folder / "format"):
        assert run_verify(folder)[0] == 2
        assert run_salvage(folder, tmp_path / "out")[0] == 2
    for line in (b"nonsense", b"rowlock data folder, format 2, id " + b"0" * 32 + b"\n"):
        format_line = (left.folder / "format").read_bytes()
        (left.folder / "format").write_bytes(line)
        assert run_verify(left.folder)[0] == 2
        (left.folder / "format").write_bytes(format_line)
    with DataFolder.open(left.folder, Files(), create=False):
        for exit_code, out, err in (run_verify(left.folder), run_salvage(left.folder, tmp_path / "out")):
            assert (exit_code, out) == (2, "")
            assert "in use" in err
    assert not (tmp_path / "out").exists()
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").write_text("")
    exit_code, _, err = run_salvage(left.folder, tmp_path / "full")
    assert exit_code == 2
    assert "not empty" in err


def test_the_server_command_verifies_and_salvages(left: Left, tmp_path: Path) -> None:
    server = [sys.executable, "-m", "rowlock_regionserver"]
    assert subprocess.run([*server, "verify", str(left.folder)], capture_output=True).returncode == 0
    out = tmp_path / "out"
    assert subprocess.run([*server, "salvage", str(left.folder), str(out)], capture_output=True).returncode == 0
    assert salvaged(out, "young") == left.cells["young"]
    flip(left.files("regions/*/*.store")[0], 5000)
    ran = subprocess.run([*server, "verify", str(left.folder)], capture_output=True, text=True)
    assert ran.returncode == 1
    assert "'rowlock-server salvage DIR OUT'" in ran.stdout
