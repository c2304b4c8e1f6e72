"""Saved answers on disk: each is written a few times, all survive a restart, and no write waits for them."""

from __future__ import annotations

import errno
import threading
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

import pytest
from rowlock_regionserver.cells import Durability, Family
from rowlock_regionserver.clock import Clock, ManualClock
from rowlock_regionserver.config import Config
from rowlock_regionserver.data_folder import FORMAT, FORMAT_VERSION
from rowlock_regionserver.errors import CorruptionError, DiskFullError
from rowlock_regionserver.files import Files
from rowlock_regionserver.inspection.verify import verify
from rowlock_regionserver.operations import Append, Increment, Put, RequestId, RowMutation, RowResult
from rowlock_regionserver.region.idempotency.answers_file import read_answers
from rowlock_regionserver.region.idempotency.idempotency_memory import IdempotencyMemory
from rowlock_regionserver.region.idempotency.idempotency_table import IdempotencyTable
from rowlock_regionserver.region.idempotency.manifest_answers import with_answers
from rowlock_regionserver.region.manifest import Manifest

from tests.seeds import generator_of
from tests.waiting import WAIT_S

from .conftest import Engine, abandon

HOUR_MS = 3600 * 1000
FAMILIES = {b"f": 1}
LISTED_BYTES_MAX = Config().manifest_answers_bytes_max
MANY = LISTED_BYTES_MAX // 100  # More than a manifest lists.


def client(number: int) -> bytes:
    return b"%016d" % number


class CountingFiles(Files):
    """Counts the written bytes, and fails writes beyond a limit with ENOSPC."""

    def __init__(self) -> None:
        self.byte_count = 0
        self.fails_after: int | None = None

    def pwrite(self, descriptor: int, data: bytes | bytearray | memoryview, offset: int) -> int:
        if self.fails_after is not None and self.byte_count > self.fails_after:
            raise OSError(errno.ENOSPC, "No space left on device")
        written = super().pwrite(descriptor, data, offset)
        self.byte_count += written
        return written


class Region:
    """The saved answers of a region, and the manifest that a flush makes of them."""

    def __init__(self, folder: Path, clock: Clock | None = None) -> None:
        self.folder = folder
        self.files = CountingFiles()
        self.clock = clock or ManualClock()
        self.manifest = Manifest(1, 1)
        self.write_number = 0
        self.listed_bytes_max = LISTED_BYTES_MAX
        self.requests = self._empty()

    def _empty(self) -> IdempotencyTable:
        return IdempotencyTable(self.clock, IdempotencyMemory(1 << 30), HOUR_MS, 1 << 20)

    def keep(self, name: bytes, sequence: int, floor: int = 1, row: bytes = b"row") -> None:
        self.write_number += 1
        self.requests.save(RequestId(name, sequence, floor), row, self.write_number, RowResult(timestamp=sequence))

    def flush(self) -> None:
        self.manifest = with_answers(
            self.manifest,
            self.requests,
            self.write_number,
            self.files,
            self.folder,
            FAMILIES,
            self.listed_bytes_max,
            lambda: self.manifest.next_file_number,
        )

    def restart(self) -> None:
        self.requests = self._empty()
        in_files = [read_answers(self.files, self.folder, file, {1: b"f"}) for file in self.manifest.answers_files]
        self.requests.restore((*chain.from_iterable(in_files), *self.manifest.answers), self.manifest.forgotten_ms_ago)

    def found(self) -> list[tuple[object, ...]]:
        return sorted(
            (answer.client, answer.sequence, answer.write_number, answer.result, answer.is_bulk, answer.is_cut)
            for some in self.requests.saved(-1, self.write_number)
            for answer in some
        )


def test_few_answers_are_listed_by_the_manifest_and_many_are_written_once(tmp_path: Path) -> None:
    region = Region(tmp_path)
    region.keep(client(0), 1)
    region.flush()
    assert (len(region.manifest.answers), region.manifest.answers_files) == (1, ())
    for sequence in range(MANY):
        region.keep(client(1), sequence + 1)
    region.flush()
    (file,) = region.manifest.answers_files
    assert (file.answer_count, region.manifest.answers) == (MANY + 1, ())
    written = region.files.byte_count
    for number in range(2, 30):
        region.keep(client(number), 1)
        region.flush()
    assert region.manifest.answers_files == (file,)
    assert len(region.manifest.answers) == 28
    assert region.files.byte_count == written, "no flush after the first writes them once more"
    assert len(region.manifest.encode()) < LISTED_BYTES_MAX
    before = region.found()
    region.restart()
    assert region.found() == before


def test_there_are_few_files_and_each_answer_is_written_a_few_times(tmp_path: Path) -> None:
    region = Region(tmp_path)
    region.listed_bytes_max = LISTED_BYTES_MAX // 8
    many = MANY // 8
    count = 60
    for number in range(count):
        for sequence in range(many):
            region.keep(client(number), sequence + 1)
        region.flush()
        assert len(region.manifest.answers_files) <= number.bit_length() + 1
    per_answer = region.files.byte_count / (count * many)
    assert per_answer < 70 * (count.bit_length() + 1)
    assert len(region.found()) == count * many
    before = region.found()
    region.restart()
    assert region.found() == before


def test_a_manifest_names_no_file_of_forgotten_answers(tmp_path: Path) -> None:
    clock = ManualClock()
    region = Region(tmp_path, clock)
    for sequence in range(MANY):
        region.keep(client(1), sequence + 1)
    region.flush()
    region.keep(client(1), MANY + 1, floor=MANY)
    region.flush()
    assert region.manifest.answers_files == ()
    assert [answer.sequence for answer in region.manifest.answers] == [MANY, MANY + 1]
    for sequence in range(MANY):
        region.keep(client(2), sequence + 1)
    region.flush()
    assert len(region.manifest.answers_files) == 1
    clock.advance(HOUR_MS + 1)
    region.keep(client(3), 1)
    region.flush()
    assert region.manifest.answers_files == ()
    assert len(region.manifest.answers) == 1


def test_after_any_flushes_and_restarts_every_answer_is_there(tmp_path: Path) -> None:
    for seed in range(20):
        draw = generator_of(seed)
        folder = tmp_path / str(seed)
        folder.mkdir()
        region = Region(folder)
        region.listed_bytes_max = 3000
        sequences = [0] * 4
        for _ in range(60):
            number = draw.randrange(4)
            for _ in range(draw.choice([1, 5, 50])):
                sequences[number] += 1
                floor = draw.choice([1, 1, 1, sequences[number] - draw.randrange(sequences[number])])
                region.keep(client(number), sequences[number], floor, row=b"r" * draw.choice([1, 100]))
            if draw.random() < 0.4:
                region.flush()
                before = region.found()
                if draw.random() < 0.5:
                    region.restart()
                    assert region.found() == before, f"seed {seed}"


def test_a_failed_write_of_answers_leaves_no_file(tmp_path: Path) -> None:
    region = Region(tmp_path)
    for number in range(MANY):
        region.keep(client(number), 1)
    region.files.fails_after = 1000
    before = region.manifest
    with pytest.raises(DiskFullError, match="No space"):
        region.flush()
    assert region.manifest is before
    assert list(tmp_path.iterdir()) == []


# ---- in a server


def made(engine: Engine, count: int, name: bytes = client(1)) -> list[RowMutation]:
    """Increments and appends of one client, which never raised its floor."""
    mutations = [
        RowMutation(b"%05d" % i, (Append(b"g", b"a", b"+"), Increment(b"f", b"n", 1)), None, (), RequestId(name, i, 1))
        for i in range(1, count + 1)
    ]
    assert all(isinstance(outcome, RowResult) for outcome in engine.mutate(*mutations))
    return mutations


def answers_files(engine: Engine) -> list[Path]:
    return sorted(engine.folder.glob("regions/*/answers-*"))


@pytest.mark.parametrize("ended", ["crashed", "restarted"])
def test_a_request_is_known_by_a_file_over_flushes_and_restarts(engine: Engine, ended: str) -> None:
    mutations = made(engine, MANY)
    first = engine.mutate(*mutations)
    for number in range(3):
        engine.change(b"other", Put(b"f", b"q", b"%d" % number))
        engine.server.flush("t")
        (path,) = answers_files(engine)
        assert path.stat().st_size > 50 * MANY
        for generation in engine.folder.glob("regions/*/manifest-*"):
            assert generation.stat().st_size < LISTED_BYTES_MAX // 8
        engine.crash() if ended == "crashed" else engine.restart()
        assert engine.mutate(*mutations) == first
    (path.parent / "answers-000000009999").write_bytes(b"a leftover")
    engine.crash()
    assert answers_files(engine) == [path]
    assert engine.mutate(*mutations) == first


def test_answers_with_cells_of_a_dropped_family_are_saved_without_cells(engine: Engine) -> None:
    mutations = made(engine, MANY)
    engine.server.alter_table("t", drop_families=[b"g"])
    engine.server.flush("t")
    assert len(answers_files(engine)) == 1
    engine.crash()
    (outcome,) = engine.mutate(mutations[0])
    assert "was answered before, and its change was made" in str(outcome)


@pytest.mark.parametrize("damage", ["flipped", "cut", "missing"])
def test_a_damaged_answers_file_is_damage_of_its_region(engine: Engine, damage: str) -> None:
    made(engine, MANY)
    engine.server.create_table("other", [Family(0, b"f")], Durability.OS)
    engine.server.flush("t")
    (path,) = answers_files(engine)
    region_id = engine.region.region_id
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    abandon(engine.server)
    if damage == "missing":
        path.unlink()
    else:
        path.write_bytes(content if damage == "flipped" else content[:-1])
    (engine.folder / FORMAT).write_text(f"rowlock data folder, format {FORMAT_VERSION}, id {'0' * 32}\n")
    assert [error.path for error in verify(engine.folder, Files()).damage] == [path]
    engine.server = engine.open()
    assert list(engine.server.damaged_regions()) == [region_id]
    with pytest.raises(CorruptionError):
        engine.cells(b"r")
    assert len(engine.server.regions_of("other")) == 1


class HeldAnswers(Files):
    """Blocks a flush while it writes answers."""

    def __init__(self) -> None:
        self.is_held = threading.Event()
        self.may_go_on = threading.Event()
        self.descriptor = -1

    def open(self, path: Path, flags: int, mode: int = 0o600) -> int:
        descriptor = super().open(path, flags, mode)
        if path.name.startswith("answers-"):
            self.descriptor = descriptor
        return descriptor

    def pwrite(self, descriptor: int, data: bytes | bytearray | memoryview, offset: int) -> int:
        if descriptor == self.descriptor:
            self.is_held.set()
            assert self.may_go_on.wait(WAIT_S)
        return super().pwrite(descriptor, data, offset)


@pytest.fixture
def held(tmp_path: Path, config: Config) -> Iterator[Engine]:
    running = Engine(tmp_path, config, Clock(), HeldAnswers(), Durability.OS)
    yield running
    running.server.stop()
    assert not running.fatal


def test_no_write_waits_while_answers_are_written(held: Engine) -> None:
    files = held.files
    assert isinstance(files, HeldAnswers)
    mutations = made(held, MANY)
    flushing = threading.Thread(target=held.server.flush, args=("t",))
    flushing.start()
    assert files.is_held.wait(WAIT_S)
    assert held.change(b"new", Put(b"f", b"q", b"v"), request=RequestId(client(2), 1, 1)).timestamp
    (again,) = held.mutate(mutations[0])
    assert isinstance(again, RowResult)
    assert again.repeated_request
    assert held.region.statistics().request_ids.saved_answers == MANY + 1
    files.may_go_on.set()
    flushing.join()
    held.crash()
    assert held.change(b"new", Put(b"f", b"q", b"v"), request=RequestId(client(2), 1, 1)).repeated_request


class RecordedFiles(Files):
    """Records the operations on answers files and manifests, in order."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.names: dict[int, str] = {}

    def open(self, path: Path, flags: int, mode: int = 0o600) -> int:
        descriptor = super().open(path, flags, mode)
        self.names[descriptor] = path.name.partition("-")[0]
        return descriptor

    def fsync(self, descriptor: int) -> None:
        super().fsync(descriptor)
        self.calls.append(f"sync {self.names[descriptor]}")

    def fsync_folder(self, path: Path) -> None:
        super().fsync_folder(path)
        self.calls.append("sync the folder")

    def rename(self, source: Path, target: Path) -> None:
        super().rename(source, target)
        self.calls.append(f"name {target.name.partition('-')[0]}")

    def remove(self, path: Path) -> None:
        super().remove(path)
        self.calls.append(f"remove {path.name.partition('-')[0]}")


def test_a_file_is_durable_before_a_manifest_names_it_and_is_removed_when_none_does(
    tmp_path: Path, config: Config
) -> None:
    files = RecordedFiles()
    engine = Engine(tmp_path, config, Clock(), files, Durability.OS)
    made(engine, MANY)
    files.calls.clear()
    engine.server.flush("t")
    durable = files.calls.index("sync answers")
    assert durable < files.calls.index("sync the folder", durable) < files.calls.index("name manifest")
    assert "remove answers" not in files.calls
    files.calls.clear()
    engine.change(b"r", Put(b"f", b"q", b"v"), request=RequestId(client(1), MANY + 1, MANY + 1))
    engine.server.flush("t")
    committed = files.calls.index("name manifest")
    assert committed < files.calls.index("sync the folder", committed) < files.calls.index("remove answers")
    assert answers_files(engine) == []
    engine.server.stop()
