"""The layout of bulk files, which small batches in log records have too."""

from __future__ import annotations

import contextlib
import struct
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from rowlock_regionserver.errors import CorruptionError
from rowlock_regionserver.files import Files
from rowlock_regionserver.region.bulk.arranged import FAMILY_CELLS_SCHEMA, FamilyPart
from rowlock_regionserver.region.bulk.bulk_file import (
    bulk_file_path,
    decode_parts,
    encode_parts,
    read_bulk_file,
    write_bulk_file,
)
from rowlock_regionserver.region.bulk.family_lines import FamilyLines

from tests.crash.simulated_files import Call, SimulatedFiles


def cells() -> pa.Table:
    return pa.Table.from_pylist(
        [{"row": b"r", "qualifier": b"q", "timestamp": None, "kind": 2, "value": b""}], FAMILY_CELLS_SCHEMA
    )


def lines(timestamps: list[int | None] | None) -> FamilyLines:
    values = pa.array([b"12", None, b"34"], pa.binary(2))
    return FamilyLines(
        pa.array([b"a", b"b", b"c"], pa.binary()),
        None if timestamps is None else pa.array(timestamps, pa.int64()),
        (b"", b"\xff\x00"),
        (values, pa.array([b"", b"x", None], pa.binary())),
    )


def encoded(parts: dict[int, FamilyPart]) -> bytes:
    return b"".join(bytes(piece) for piece in encode_parts(parts))


def test_a_batch_of_cells_is_encoded_as_by_earlier_versions() -> None:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, FAMILY_CELLS_SCHEMA) as writer:
        writer.write_table(cells())
    stream = sink.getvalue().to_pybytes()
    expected = b"rowlkblk" + struct.pack("<IIIQ", 1, 1, 7, len(stream)) + stream
    assert encoded({7: FamilyPart(cells=cells())}) == expected
    assert decode_parts(expected) == {7: FamilyPart(cells=cells())}


@pytest.mark.parametrize("timestamps", [None, [5, None, 7]])
def test_lines_and_cells_of_a_family_are_decoded_as_they_were(timestamps: list[int | None] | None) -> None:
    parts = {7: FamilyPart(lines(timestamps), cells()), 9: FamilyPart(lines=lines(None)), 11: FamilyPart(cells=cells())}
    data = encoded(parts)
    assert data[:16] == b"rowlkblk" + struct.pack("<II", 2, 4)
    found = decode_parts(data)
    assert list(found) == [7, 9, 11]
    for number, part in parts.items():
        assert found[number].cells == part.cells
        was, now = part.lines, found[number].lines
        assert (was is None) == (now is None)
        if was is not None and now is not None:
            assert now.qualifiers == was.qualifiers
            assert (now.timestamps is None) == (was.timestamps is None)
            assert now.record_batch().equals(was.record_batch())


def test_large_columns_are_written_from_where_they_are() -> None:
    large, small = (pa.array([bytes([byte]) * size] * 3, pa.binary(size)) for byte, size in ((1, 100_000), (2, 50)))
    keys = pa.array([b"a", b"b", b"c"], pa.binary())
    part = FamilyPart(FamilyLines(keys, None, (b"0", b"1", b"2", b"3"), (small, large, large, small)))
    pieces = encode_parts({7: part})
    assert [len(piece) >= 300_000 for piece in pieces] == [False, False, False, True, True, False]
    data = large.buffers()[1]
    assert data is not None
    for piece in pieces[3:5]:
        assert isinstance(piece, pa.Buffer)
        assert piece.address == data.address
    found = decode_parts(b"".join(bytes(piece) for piece in pieces))[7].lines
    assert found is not None
    assert part.lines is not None
    assert found.record_batch().equals(part.lines.record_batch())


def test_slices_are_encoded_as_what_they_show() -> None:
    whole = lines([5, None, 7])
    assert whole.timestamps is not None
    columns = tuple(column.slice(1) for column in whole.columns)
    part = FamilyPart(FamilyLines(whole.rows.slice(1), whole.timestamps.slice(1), whole.qualifiers, columns))
    found = decode_parts(encoded({7: part}))[7].lines
    assert found is not None
    assert found.record_batch().to_pylist() == [
        {"row": b"b", "timestamp": None, "": None, "ff00": b"x"},
        {"row": b"c", "timestamp": 7, "": b"34", "ff00": None},
    ]


def test_another_version_is_refused(tmp_path: Path) -> None:
    data = bytearray(encoded({7: FamilyPart(cells=cells())}))
    data[8] = 3
    with pytest.raises(CorruptionError, match="version 3; use the rowlock version that wrote it"):
        decode_parts(bytes(data))
    written = write_bulk_file(Files(), tmp_path, 5, {7: FamilyPart(lines=lines(None))})
    assert read_bulk_file(Files(), tmp_path, written)[7].lines is not None
    path = bulk_file_path(tmp_path, 5)
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(CorruptionError, match="bytes"):
        read_bulk_file(Files(), tmp_path, written)


def test_a_large_bulk_file_is_written_and_synced_without_the_permit(tmp_path: Path) -> None:
    has_permit = True
    synced: list[str] = []

    @contextlib.contextmanager
    def released() -> Iterator[None]:
        nonlocal has_permit
        has_permit = False
        yield
        has_permit = True

    def note(call: Call) -> None:
        if "sync" in call.name:
            assert not has_permit, call
            synced.append(call.name)

    disk = SimulatedFiles(tmp_path / "data")
    disk.before_call = note
    large = pa.table({"row": [b"r"], "qualifier": [b"q"], "timestamp": [1], "kind": [2], "value": [bytes(3 << 20)]})
    parts = {7: FamilyPart(cells=large.cast(FAMILY_CELLS_SCHEMA))}
    written = write_bulk_file(disk, disk.root, 5, parts, released)
    assert has_permit
    assert synced == ["fdatasync", "fdatasync", "fdatasync", "fsync", "fsync_folder"]
    assert read_bulk_file(disk, disk.root, written) == parts
