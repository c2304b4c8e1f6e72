"""An end of the log that is lost, but not by a power failure, is damage and never a torn tail."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from rowlock_regionserver.cells import Durability
from rowlock_regionserver.errors import CorruptionError
from rowlock_regionserver.wal import durable
from rowlock_regionserver.wal.durable import DurableNote, read_durable
from rowlock_regionserver.wal.record import Position
from rowlock_regionserver.wal.recovery import read_log
from rowlock_regionserver.wal.segment import SEGMENT_HEADER_BYTES, decode_segment_header, segment_path

from tests.crash.simulated_files import Loss, SimulatedFiles, UnsyncedFiles, copy_folder
from tests.unit.wal.log_case import Change, LogCase, deliver_to, read_all, read_alone, segment_names, small_config
from tests.unit.wal.test_idle_markers import idle

PAGE = 4096
SEGMENT = 64 * 1024
COUNT = 400
Damages = Callable[[bytes], bytes]


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Change], list[int]]:
    """The log of a server that was killed after 400 synced changes, these, and where each of them ends."""
    return image_of(tmp_path_factory.mktemp("killed"), SEGMENT)


def image_of(folder: Path, segment_bytes: int, *, close: bool = False) -> tuple[Path, list[Change], list[int]]:
    disk = SimulatedFiles(folder / "disk")
    case = LogCase(disk.root / "log", disk, small_config(log_segment_bytes=segment_bytes)).open()
    stops = []
    for number in range(COUNT):
        case.append_synced(1 + number % 3, b"payload %d " % number * 5)
        stops.append(case.log.durable.offset)
    if close:
        case.log.close()
        return case.folder, case.appended, stops
    image = disk.power_failure(folder / "image", Loss.NOTHING) / "log"
    case.log.close()
    return image, case.appended, stops


def cut_short(data: bytes) -> bytes:
    return data[: len(data) // 4]


def page_cut_out(data: bytes) -> bytes:
    return data[: 2 * PAGE] + data[3 * PAGE :]


def page_cut_out_and_filled_up(data: bytes) -> bytes:
    return page_cut_out(data) + bytes(PAGE)


def page_put_in(data: bytes) -> bytes:
    return (data[: 2 * PAGE] + bytes(PAGE) + data[2 * PAGE :])[: len(data)]


def end_zeroed(data: bytes) -> bytes:
    return data[: 2 * PAGE] + bytes(len(data) - 2 * PAGE)


def damaged(image: Path, target: Path, damage: Damages) -> Path:
    folder = copy_folder(image, target)
    path = segment_path(folder, 1)
    path.write_bytes(damage(path.read_bytes()))
    return folder


def check_named(folder: Path, changes: list[Change], stops: list[int], place: int) -> None:
    """Checks that the damage is named, that no region is served with lost changes, and that a restart agrees."""
    recovered, delivered = read_all(folder)
    check_gap(folder, recovered.gaps[0].offset, stops, place)
    for region_id in (1, 2, 3, 99):
        assert recovered.damage_of(region_id) is not None
    assert delivered == changes[: len(delivered)]
    before = segment_path(folder, 1).read_bytes()
    LogCase(folder, UnsyncedFiles(), small_config(log_segment_bytes=SEGMENT)).open().log.close()
    # No region needs it any more, so it may have been set aside by now.
    (kept,) = [path for path in folder.iterdir() if path.stem == "0000000001"]
    assert kept.read_bytes() == before, "what its repair may need was cut"
    for region_id in (1, 2, 3, 99):
        assert read_all(folder)[0].damage_of(region_id) is not None


def check_gap(folder: Path, offset: int, stops: list[int], place: int) -> None:
    """The damage begins with the first incomplete record."""
    assert offset == max([stop for stop in stops if stop <= place], default=offset), folder


@pytest.mark.parametrize("damage", [cut_short, page_cut_out, page_cut_out_and_filled_up, page_put_in, end_zeroed])
def test_lost_records_that_a_killed_server_had_synced_are_named(
    killed: tuple[Path, list[Change], list[int]], tmp_path: Path, damage: Damages
) -> None:
    image, changes, stops = killed
    folder = damaged(image, tmp_path / "log", damage)
    check_named(folder, changes, stops, 4 * PAGE if damage is cut_short else 2 * PAGE)


@pytest.mark.parametrize("damage", [cut_short, page_cut_out, page_cut_out_and_filled_up, page_put_in])
def test_the_segment_alone_shows_a_piece_cut_out_of_it(
    killed: tuple[Path, list[Change], list[int]], tmp_path: Path, damage: Damages
) -> None:
    image, changes, stops = killed
    folder = damaged(image, tmp_path / "log", damage)
    (folder / durable.NAME).unlink()
    recovered, delivered = read_all(folder)
    check_gap(folder, recovered.gaps[0].offset, stops, 4 * PAGE if damage is cut_short else 2 * PAGE)
    assert recovered.damage_of(1) is not None
    assert delivered == changes[: len(delivered)]


def test_a_file_cut_at_any_byte_is_shorter_than_it_was_made(
    killed: tuple[Path, list[Change], list[int]], tmp_path: Path
) -> None:
    image, _, stops = killed
    folder = copy_folder(image, tmp_path / "log")
    (folder / durable.NAME).unlink()
    path = segment_path(folder, 1)
    whole = path.read_bytes()
    for cut in [SEGMENT_HEADER_BYTES, 100, *stops[::57], *range(stops[-1] - 130, stops[-1] + 9), len(whole) - 1]:
        path.write_bytes(whole[:cut])
        recovered, _ = read_all(folder)
        assert recovered.damage_of(1) is not None, f"cut at {cut}"
        assert recovered.gaps[-1].path == path


def test_the_file_durable_proves_the_last_record_of_a_killed_server(
    killed: tuple[Path, list[Change], list[int]], tmp_path: Path
) -> None:
    image, changes, stops = killed

    def flip(data: bytes) -> bytes:
        return data[: stops[-1] - 20] + bytes([data[stops[-1] - 20] ^ 1]) + data[stops[-1] - 19 :]

    folder = damaged(image, tmp_path / "log", flip)
    assert read_alone(folder)[0].gaps == (), "nothing in the log proves it"
    check_named(folder, changes, stops, stops[-2])


@pytest.mark.parametrize("has_note", [True, False], ids=["with note", "without"])
def test_a_loss_at_the_end_of_the_log_of_a_stopped_server_is_named(tmp_path: Path, has_note: bool) -> None:
    folder, changes, stops = image_of(tmp_path, SEGMENT, close=True)
    whole, delivered = read_all(folder)
    assert (whole.gaps, whole.torn, delivered) == ((), None, changes)
    if not has_note:
        (folder / durable.NAME).unlink()
        assert read_all(folder)[0].gaps == ()
    path = segment_path(folder, 1)
    data = path.read_bytes()
    for cut in (stops[10], stops[-1] - 1, stops[-1], stops[-1] + 8, len(data) - 1):
        path.write_bytes(data[:cut])
        recovered, _ = read_all(folder)
        assert recovered.damage_of(1) is not None, f"cut at {cut}"


def test_a_log_that_ends_with_another_marker_was_cut(disk: SimulatedFiles, tmp_path: Path) -> None:
    case = LogCase(disk.root / "log", disk, small_config(log_segment_bytes=4096)).open()
    case.append_synced(1, b"x")
    idle(case)
    end = case.log.durable.offset
    case.append_synced(1, b"y")
    case.log.close()
    folder = damaged(case.folder, tmp_path / "log", lambda data: data[:end])
    (folder / durable.NAME).unlink()
    recovered, delivered = read_all(folder)
    assert recovered.damage_of(1) is not None
    assert delivered == case.appended[:1]


@pytest.mark.parametrize("close", [True, False], ids=["stopped", "killed"])
def test_a_missing_newest_segment_is_named(tmp_path: Path, close: bool) -> None:
    folder, _, _ = image_of(tmp_path, 4096, close=close)
    names = segment_names(folder)
    gone = folder / names[-1]
    gone.unlink()
    for folder_read in (folder, copy_folder(folder, tmp_path / "again")):
        with pytest.raises(CorruptionError) as damage:
            LogCase(folder_read, UnsyncedFiles()).open()
        assert damage.value.path.name == names[-1]
        assert damage.value.found == "no file"


def test_a_missing_newest_segment_is_named_after_a_power_failure(disk: SimulatedFiles, tmp_path: Path) -> None:
    case = LogCase(disk.root / "log", disk, small_config()).open()
    for _ in range(3):
        case.append(1, b"x" * 700, Durability.OS)
    case.wait(lambda: len(case.completed) == 3)
    folder = disk.power_failure(tmp_path / "image", Loss.ALL) / "log"
    case.log.close()
    assert segment_names(folder) == ["0000000001.wal", "0000000002.wal", "0000000003.wal"]
    segment_path(folder, 3).unlink()
    with pytest.raises(CorruptionError) as damage:
        read_all(folder)
    assert damage.value.path == segment_path(folder, 3)


def test_a_missing_newest_segment_shows_by_a_noted_position_in_it(tmp_path: Path) -> None:
    folder, _, _ = image_of(tmp_path, 4096)
    names = segment_names(folder)
    (folder / names[-1]).unlink()
    (folder / durable.NAME).unlink()
    last = len(names) - 1
    assert read_log(folder, UnsyncedFiles(), deliver_to([]), durable=Position(last, 4096)).last_segment == last
    with pytest.raises(CorruptionError) as damage:
        read_log(folder, UnsyncedFiles(), deliver_to([]), durable=Position(last + 1, 100))
    assert damage.value.path.name == names[-1]


def test_a_position_noted_elsewhere_proves_the_log_up_to_it(
    killed: tuple[Path, list[Change], list[int]], tmp_path: Path
) -> None:
    image, _, stops = killed
    folder = damaged(image, tmp_path / "log", end_zeroed)
    (folder / durable.NAME).unlink()
    end = max(stop for stop in stops if stop <= 2 * PAGE)
    for offset, is_damage in ((end, False), (end + 8, True)):
        recovered = read_log(folder, UnsyncedFiles(), deliver_to([]), durable=Position(1, offset))
        assert bool(recovered.gaps) == is_damage


def test_a_log_without_segments_is_not_a_new_one(killed: tuple[Path, list[Change], list[int]], tmp_path: Path) -> None:
    folder = copy_folder(killed[0], tmp_path / "log", [durable.NAME])
    with pytest.raises(CorruptionError, match="missing"):
        LogCase(folder, UnsyncedFiles()).open()


def test_a_note_that_is_older_of_another_log_or_damaged_proves_nothing(
    killed: tuple[Path, list[Change], list[int]], tmp_path: Path
) -> None:
    folder = damaged(killed[0], tmp_path / "log", end_zeroed)
    note = read_durable(folder, UnsyncedFiles())
    assert note is not None
    assert note.position == Position(1, killed[2][-1])
    path = folder / durable.NAME
    raw = path.read_bytes()
    other = DurableNote(bytes(16), note.position).encode()
    older = DurableNote(note.log_id, Position(1, killed[2][3])).encode()
    for content in (other, older, b"", bytes(48), raw[:-1], raw + b"\0", bytes([raw[0] ^ 1]) + raw[1:], raw[::-1]):
        path.write_bytes(content)
        assert read_all(folder)[0].gaps == ()
    for bit in range(8 * len(raw)):
        flipped = bytearray(raw)
        flipped[bit // 8] ^= 1 << bit % 8
        path.write_bytes(flipped)
        with pytest.raises(CorruptionError) as damage:
            read_durable(folder, UnsyncedFiles())
        assert damage.value.path == path
        assert read_all(folder)[0].gaps == ()
    path.write_bytes(raw)
    assert len(read_all(folder)[0].gaps) == 1


def test_the_next_start_rewrites_the_note(killed: tuple[Path, list[Change], list[int]], tmp_path: Path) -> None:
    for content in (None, b"x" * 100, b""):
        folder = copy_folder(killed[0], tmp_path / f"log-{content!r:.5}")
        path = folder / durable.NAME
        path.unlink()
        if content is not None:
            path.write_bytes(content)
        case = LogCase(folder, UnsyncedFiles(), numbers={1: COUNT}).open()
        case.append_synced(1, b"more")
        note = read_durable(folder, UnsyncedFiles())
        assert note is not None
        assert (note.position, note.log_id) == (case.log.durable, case.log.log_id)
        assert note.position.segment == 2
        case.log.close()


def test_a_position_is_noted_before_the_records_that_it_proves_are_acknowledged(disk: SimulatedFiles) -> None:
    case = LogCase(disk.root / "log", disk, small_config(log_segment_bytes=2048)).open()
    for number in range(60):
        change = case.append(1, b"x" * 50)
        noted: list[DurableNote | None] = []
        with case.log.order:
            case.log.pass_through(lambda noted=noted: noted.append(read_durable(case.folder, UnsyncedFiles())))  # type: ignore[misc]
        case.wait(lambda change=change: change in case.completed)  # type: ignore[misc]
        case.log.sync()
        (note,) = noted
        assert note is not None
        assert note.position >= Position(1, 64), number
        recovered, delivered = read_all(case.folder)
        assert delivered == case.appended
        assert Position(recovered.last_segment, recovered.end_bytes) == note.position
    case.log.close()


def test_a_tail_that_a_recovery_cuts_is_no_damage_whenever_the_next_one_begins(
    disk: SimulatedFiles, tmp_path: Path
) -> None:
    case = LogCase(disk.root / "log", disk, small_config(log_segment_bytes=2048)).open()
    for number in range(8):
        case.append(1, b"%d" % number, Durability.OS)
    case.wait(lambda: len(case.completed) == 8)
    image = disk.power_failure(tmp_path / "image", Loss.NOTHING) / "log"
    case.log.close()
    end = read_all(image)[0].end_bytes
    with segment_path(image, 1).open("r+b") as file:
        file.seek(end)
        file.write(b"\xff" * 50)
    work = SimulatedFiles(tmp_path / "work")
    folder = copy_folder(image, work.root / "log")
    states: list[Path] = []
    work.before_call = lambda call: states.append(copy_folder(folder, tmp_path / f"state-{len(states)}"))
    again = LogCase(folder, work, small_config(log_segment_bytes=2048)).open()
    assert again.delivered == case.appended
    work.before_call = lambda call: None
    again.log.close()
    sizes = {os.stat(segment_path(state, 1)).st_size for state in states}
    assert sizes == {2048, end}
    for state in states:
        recovered, delivered = read_all(state)
        assert recovered.gaps == ()
        assert delivered == case.appended


def test_a_segment_header_has_the_allocated_length(
    killed: tuple[Path, list[Change], list[int]], tmp_path: Path
) -> None:
    folder, _, _ = image_of(tmp_path, 4096)
    for name in segment_names(folder):
        data = (folder / name).read_bytes()
        assert decode_segment_header(folder / name, data).allocated_bytes == len(data) == 4096
