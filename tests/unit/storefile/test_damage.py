"""Damage in a store file raises CorruptionError or is not read: no wrong answer, and no death by a signal."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from pathlib import Path

import google_crc32c
import pyarrow as pa
import pytest
from rowlock_regionserver.cells import Compression
from rowlock_regionserver.errors import CorruptionError
from rowlock_regionserver.files import Files
from rowlock_regionserver.storefile import codecs
from rowlock_regionserver.storefile.block import decoded
from rowlock_regionserver.storefile.verify import verify_store_file
from rowlock_regionserver.storefile.wide_form import Kind as ChunkKind

from tests.drawn_cases import case_count
from tests.seeds import drawn_seed
from tests.unit.storefile import flipping
from tests.unit.storefile.store_file_case import Case, opened, simple_cells

FLIP_COUNT = case_count(1050, 60)


def flipped(folder: Path, seed: int, flip_count: int, *more: str) -> dict[str, dict[str, int]]:
    """Runs tests/unit/storefile/flipping.py as a process and returns its output."""
    child = subprocess.run(
        [sys.executable, "-m", "tests.unit.storefile.flipping", str(folder), str(seed), str(flip_count), *more],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert child.returncode == 0, f"seed {seed}: ended by {child.returncode}\n{child.stderr}"
    outcomes: dict[str, dict[str, int]] = json.loads(child.stdout)
    return outcomes


@pytest.mark.parametrize("more", [(), ("lines",)])
def test_no_flipped_bit_gives_a_wrong_answer_or_kills_the_process(tmp_path: Path, more: tuple[str, ...]) -> None:
    seed = drawn_seed()
    print(f"replay: python -m tests.unit.storefile.flipping FOLDER {seed} {FLIP_COUNT}", *more)
    outcomes = flipped(tmp_path, seed, FLIP_COUNT, *more)
    kinds = {name for name in outcomes if name.startswith("wide block chunks")}
    assert len(kinds) == (len(ChunkKind) if more else 0), f"{kinds}"
    assert sum(sum(counts.values()) for counts in outcomes.values()) == FLIP_COUNT
    for name, counts in outcomes.items():
        if "lmdb" in name:
            assert set(counts) == {"right"}, f"{name}: LMDB's pages were read"
        else:
            # A flip of the metadata of an open file is noticed when it is opened again.
            assert set(counts) - {"right"}, f"{name}: no damage was noticed"
            assert "block" not in name or set(counts) == {"corruption"}


def test_a_flipped_value_would_be_a_wrong_answer_if_checksums_were_not_compared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = flipping.make(tmp_path)
    place = bench.path.read_bytes().index(b"00007" * 4)
    assert flipping.read_flipped(bench, place, 3, while_open=False) == "corruption"
    monkeypatch.setattr("rowlock_regionserver.storefile.extents.check_payload", lambda *_: None)
    with pytest.raises(AssertionError, match="wrong cells"):
        flipping.read_flipped(bench, place, 3, while_open=False)


@pytest.mark.parametrize("kept", [0, 1, 4095, 4096, 9000, 0.5, 0.9, -4096, -1])
def test_a_cut_file_is_refused_before_anything_of_it_is_used(case: Case, kept: float) -> None:
    info = case.write(simple_cells(50))
    length = int(kept * info.file_bytes) if isinstance(kept, float) else kept % info.file_bytes
    os.truncate(case.path, length)
    with pytest.raises(CorruptionError) as refusal:
        case.open(info)
    assert (refusal.value.offset, refusal.value.found) == (length, str(length))
    assert len(verify_store_file(case.path, info, case.files)) == 1


def test_a_lack_of_memory_is_no_damage(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_memory(*_: object) -> None:
        raise pa.ArrowMemoryError("malloc of size 1 failed")

    def refused(*_: object) -> None:
        raise OSError(errno.ENOMEM, os.strerror(errno.ENOMEM))

    info = case.write(simple_cells(50))
    monkeypatch.setattr(Files, "pread_into", refused)
    with pytest.raises(MemoryError, match="Cannot allocate memory"):
        case.open(info)
    monkeypatch.setattr(codecs, "_lz4_decompressed", no_memory)
    with pytest.raises(MemoryError, match="malloc"):
        codecs.decompressed(pa.py_buffer(b"stored"), Compression.LZ4, 1, 0)
    monkeypatch.setattr(pa.ipc, "read_record_batch", no_memory)
    with pytest.raises(MemoryError, match="malloc"):
        decoded(pa.py_buffer(b"payload"), 1, case.path, 0)


def test_a_file_with_more_at_its_end_is_refused(case: Case) -> None:
    info = case.write(simple_cells(50))
    with case.path.open("ab") as file:
        file.write(b"\0")
    with pytest.raises(CorruptionError):
        case.open(info)


def test_damage_of_one_block_leaves_the_others_readable(tmp_path: Path) -> None:
    bench = flipping.make(tmp_path)
    start, _ = flipping.structures(bench)["block payloads"][3]
    flipping.flip(bench.path, start + 50, 0)
    store_file = bench.open()
    failed = set()
    for row, cells in bench.rows.items():
        try:
            assert list(store_file.row_cells(row)) == cells
        except CorruptionError as damage:
            failed.add((damage.path, damage.offset))
    assert failed == {(bench.path, start)}


def test_a_block_in_the_place_of_another_is_noticed(tmp_path: Path) -> None:
    bench = flipping.make(tmp_path)
    ranges = flipping.structures(bench)
    raw = bytearray(bench.path.read_bytes())
    (first, second) = (header[0] for header in ranges["block headers"][2:4])
    length = ranges["block payloads"][2][1] - first
    raw[second : second + length] = raw[first : first + length]
    bench.path.write_bytes(raw)
    assert flipping.read_everything(bench, bench.open_file().runs) == "corruption"


def test_zeroed_pages_are_noticed(tmp_path: Path) -> None:
    bench = flipping.make(tmp_path)
    whole = bench.path.read_bytes()
    assert google_crc32c.value(b"\0" * 100) != 0, "zeros must not have a valid checksum"
    for page in range(2, len(whole) // 4096):
        raw = bytearray(whole)
        raw[page * 4096 : (page + 1) * 4096] = bytes(4096)
        bench.path.write_bytes(raw)
        try:
            with opened(bench.path, bench.info) as store_file:
                flipping.read_everything(bench, store_file.runs)
        except CorruptionError:
            continue
