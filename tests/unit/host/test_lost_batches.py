"""Files of staged batches that are lost while the server is down: no commit passes over one that was answered.

Its number is answered with a staged batch. A commit names these numbers, and no later batch gets one of them.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Sequence
from pathlib import Path

import pytest
from rowlock_regionserver import generations
from rowlock_regionserver.catalog.commits import Identity
from rowlock_regionserver.clock import Clock
from rowlock_regionserver.errors import CorruptionError, InvalidRequestError, SessionEndedError
from rowlock_regionserver.files import Files
from rowlock_regionserver.host.bulk_commit import CommitRequest, known_commit
from rowlock_regionserver.host.staging import Batch, StagedContents, Staging
from rowlock_regionserver.inspection import verify
from rowlock_regionserver.sessions.session import SessionRef

from tests.crash.simulated_files import Loss, SimulatedCrash, SimulatedFiles
from tests.drawn_cases import drawn_calls
from tests.unit.host.bulk_store import FAMILIES, Store
from tests.unit.host.test_large_bulk_crashes import CRASHED
from tests.unit.region.conftest import abandon

BLOCK = 100_000


@pytest.fixture
def store(tmp_path: Path) -> Store:
    store = Store(tmp_path / "data")
    store.server.create_table("t", FAMILIES)
    return store


def lose(store: Store, *numbers: int) -> list[Path]:
    """Removes the files of batches, and starts the server again."""
    abandon(store.server)
    [folder] = (store.folder / "staging").iterdir()
    paths = [folder / f"batch-{number:08d}" for number in numbers]
    for path in paths:
        path.unlink()
    store.open()
    return paths


def check_refused(store: Store, ref: SessionRef, staged_batches: Sequence[int], path: Path) -> None:
    """Checks that a commit is refused for the file, twice, and that nothing of it is seen."""
    for _ in range(2):
        with pytest.raises(CorruptionError, match="nothing was committed: abort the bulk write") as caught:
            store.commit(ref, staged_batches=staged_batches)
        assert caught.value.path == path
        assert store.content() == {}
    [info] = store.server.clients.sessions.infos()
    assert (info.ref, len(info.held)) == (ref, 1)


def body_of(path: Path, number: int) -> dict[str, object]:
    found: dict[str, object] = json.loads(generations.read(Files(), path, number))
    return found


def test_a_batch_is_answered_with_its_number_also_when_it_is_repeated(store: Store) -> None:
    ref = store.session()
    assert store.stage(ref, (b"a", b"1"), sequence=1) == [1]
    assert store.stage(ref, (b"b", b"1"), sequence=2) == [2]
    assert store.stage(ref, (b"a", b"1"), sequence=1) == [1]
    assert store.stage(ref, (b"a", b"1"), sequence=3, parts_of=(1,)) == [1]
    assert store.stage(ref, (b"c", b"1"), sequence=5, parts_of=(4,)) == [3]
    assert store.stage(ref, (b"c", b"1"), sequence=4) == [3]
    assert store.commit(ref, staged_batches=(3, 1, 2)).row_count == 3


def test_a_commit_without_a_lost_last_batch_is_refused(store: Store) -> None:
    ref = store.session()
    numbers = store.stage(ref, (b"a", b"1"), (b"b", b"1"))
    [path] = lose(store, 2)
    check_refused(store, ref, numbers, path)
    assert store.commit(ref).row_count == 1  # A client of an earlier version names no numbers.


def test_the_number_of_a_lost_batch_is_not_given_again(store: Store) -> None:
    """Also if several were lost, in several restarts."""
    ref = store.session()
    numbers = store.stage(ref, (b"a", b"1"), (b"b", b"1"), (b"c", b"1"))
    first, _ = lose(store, 2, 3)
    numbers += store.stage(ref, (b"d", b"1"), (b"e", b"1"))
    lose(store, *numbers[3:])
    store.crash()
    numbers += store.stage(ref, (b"f", b"1"), (b"g", b"1"))
    assert len(set(numbers)) == 7
    assert numbers == sorted(numbers)
    check_refused(store, ref, numbers, first)
    check_refused(store, ref, numbers[3:], first.with_name(f"batch-{numbers[3]:08d}"))
    assert store.commit(ref, staged_batches=[1, *numbers[5:]]).row_count == 3
    assert store.content() == {b"a": b"1", b"f": b"1", b"g": b"1"}


@pytest.mark.parametrize("lost", [1, 2, BLOCK + 1])
def test_a_lost_batch_that_another_one_follows_ends_the_write_also_beside_a_gap(store: Store, lost: int) -> None:
    ref = store.session()
    store.stage(ref, (b"a", b"1"), (b"b", b"1"))
    store.crash()
    assert store.stage(ref, (b"c", b"1"), (b"d", b"1")) == [BLOCK + 1, BLOCK + 2]
    store.server.stop()
    [path] = store.folder.glob(f"staging/*/batch-{lost:08d}")
    path.unlink()
    found = verify.Verification()
    verify.verify_folder(store.folder, Files(), found)
    assert path in [error.path for error in found.damage]
    store.open()
    with pytest.raises(SessionEndedError):
        store.commit(ref)
    assert store.content() == {}


def test_batches_on_both_sides_of_gaps_are_committed_in_their_order(store: Store) -> None:
    ref = store.session()
    numbers = store.stage(ref, (b"a", b"1"), (b"b", b"1"))
    for value in (b"2", b"3"):
        store.crash()
        numbers += store.stage(ref, (b"a", value))
    store.crash()
    assert numbers == [1, 2, BLOCK + 1, 2 * BLOCK + 1]
    assert store.commit(ref, staged_batches=numbers).row_count == 4
    assert store.content() == {b"a": b"3", b"b": b"1"}


def test_a_lost_only_batch_is_noticed_also_when_later_ones_were_staged(store: Store) -> None:
    ref = store.session()
    numbers = store.stage(ref, (b"a", b"1"))
    [path] = lose(store, 1)
    numbers += store.stage(ref, (b"b", b"1"))
    assert body_of(path.with_name(f"batch-{BLOCK + 1:08d}"), BLOCK + 1)["after"] == 0
    store.crash()
    check_refused(store, ref, numbers, path)


def test_batches_are_spilled_over_gaps(tmp_path: Path) -> None:
    store = Store(tmp_path / "data", spills_at=2000)
    store.server.create_table("t", FAMILIES)
    ref = store.session()
    numbers = []
    for place in range(10):
        numbers += store.stage(ref, (b"%d" % place, b"1"))
        if place % 4 == 3:
            store.crash()
    spilled = {number for spill in store.write_of(ref).contents.spills for number in spill.batches}
    assert min(spilled) < BLOCK < max(spilled)
    store.crash()
    assert store.commit(ref, staged_batches=numbers).row_count == 10
    assert len(store.content()) == 10


def test_a_lost_last_spill_refuses_the_commit(tmp_path: Path) -> None:
    store = Store(tmp_path / "data", spills_at=1)
    store.server.create_table("t", FAMILIES)
    ref = store.session()
    numbers = store.stage(ref, (b"a", b"1"), (b"b", b"1"), (b"c", b"1"))
    abandon(store.server)
    *_, path = sorted(store.folder.glob("staging/*/spill-*"))
    path.unlink()
    store.open()
    with pytest.raises(CorruptionError):
        store.commit(ref, staged_batches=numbers)
    assert store.content() == {}


@pytest.mark.parametrize("lost", ["bulk/*", "staging/*/spill-*"])
@pytest.mark.parametrize("restarts", [1, 2])
def test_a_write_that_lost_files_removes_none_of_another_one(tmp_path: Path, lost: str, restarts: int) -> None:
    """The numbers of its bulk files are not given again, neither those of lost ones nor of spilled ones."""
    store = Store(tmp_path / "data", spills_at=1 if "spill" in lost else 0)
    store.server.create_table("t", FAMILIES)
    damaged = store.session("damaged")
    store.stage(damaged, (b"a", b"1"), (b"b", b"1"), (b"c", b"1"))
    store.spills_at = 0
    intact = store.session("intact")
    for restart in range(restarts):
        abandon(store.server)
        for path in store.folder.glob("bulk/*"):
            path.unlink()
        for path in store.folder.glob(lost if restart == restarts - 1 else "none"):
            path.unlink()
        store.open()
    numbers = store.stage(intact, (b"d", b"1"), (b"e", b"1"))
    store.server.bulk_writes.abort(damaged, store.server.table("t"))
    assert store.commit(intact, staged_batches=numbers).row_count == 2
    assert store.content() == {b"d": b"1", b"e": b"1"}


@pytest.mark.parametrize("splits", [False, True])
def test_a_lost_store_file_of_a_spill_refuses_the_commit_and_ends_nothing(tmp_path: Path, *, splits: bool) -> None:
    store = Store(tmp_path / "data", spills_at=1)
    store.server.create_table("t", FAMILIES)
    ref = store.session()
    numbers = store.stage(ref, (b"a", b"1"), (b"b", b"1"), (b"c", b"1"))
    if splits:
        (region,) = store.server.regions_of("t")
        store.server.split_region("t", region.region_id, b"b")
    abandon(store.server)
    paths = list(store.folder.glob("staging/*/*.store"))
    for path in paths:
        path.unlink()
    store.open()
    for _ in range(2):
        with pytest.raises(CorruptionError, match="restore it") as caught:
            store.commit(ref, staged_batches=numbers)
        assert caught.value.path in paths
    store.put(b"d", b"1")  # Else the server had ended.
    assert store.content() == {b"d": b"1"}


def test_a_write_of_an_earlier_version_goes_on(store: Store) -> None:
    """Before its first restart the files have what earlier versions wrote, and no more."""
    ref = store.session()
    store.stage(ref, (b"a", b"1"), (b"b", b"1"))
    [folder] = (store.folder / "staging").iterdir()
    assert not body_of(folder / "write", 1).keys() & {"last_reserved"}
    for number in (1, 2):
        assert body_of(folder / f"batch-{number:08d}", number).keys() == {"request", "staged"}
    store.crash()
    [after] = store.stage(ref, (b"c", b"1"))
    assert body_of(folder / "write", 1)["last_reserved"] == 2 * BLOCK
    assert body_of(folder / f"batch-{after:08d}", after)["after"] == 2
    store.crash()
    assert store.commit(ref, staged_batches=[after]).row_count == 3


def test_a_write_of_an_earlier_version_with_more_batches_than_a_block_goes_on() -> None:
    contents = StagedContents([Batch(number, number - 1, None, ()) for number in range(1, BLOCK + 9)], (), BLOCK)
    assert contents.next_number == BLOCK + 9


def test_a_block_that_is_used_up_is_followed_by_another_one(store: Store) -> None:
    ref = store.session()
    write = store.write_of(ref)
    staging = store.server.bulk_writes.staging
    for number in range(1, BLOCK):
        write.contents.add(Batch(number, number - 1, None, ()))
    assert store.stage(ref, (b"a", b"1"), (b"b", b"1")) == [BLOCK, BLOCK + 1]
    assert body_of(staging.folder_of(write.write) / "write", 1)["last_reserved"] == 2 * BLOCK
    assert write.write.last_reserved == 2 * BLOCK


def test_a_batch_file_that_names_no_earlier_batch_is_damaged(store: Store) -> None:
    ref = store.session()
    store.stage(ref, (b"a", b"1"))
    [path] = store.folder.glob("staging/*/batch-*")
    body = {**body_of(path, 1), "after": 1}
    path.write_bytes(generations.framed(1, json.dumps(body).encode()))
    with pytest.raises(CorruptionError, match="can't be after batch 1"):
        Staging(store.folder / "staging", Files()).read_folder(path.parent)


def test_a_commit_of_a_known_identity_asks_for_no_batch(store: Store) -> None:
    """It writes nothing."""
    identity = Identity("daily", 1)
    ref = store.session()
    store.stage(ref, (b"a", b"1"))
    store.commit(ref, identity=identity)
    again = store.session()
    numbers = store.stage(again, (b"a", b"2"), (b"b", b"2"))
    lose(store, 2)
    assert store.commit(again, identity=identity, staged_batches=numbers).is_repeated
    assert store.content() == {b"a": b"1"}


def test_a_repeated_commit_asks_for_no_batch(store: Store) -> None:
    ref = store.session()
    numbers = store.stage(ref, (b"a", b"1"))
    number = store.write_of(ref).write.write_number
    result = store.commit(ref, number=number, staged_batches=numbers)
    store.crash()
    repeated = CommitRequest(ref, "t", number=number, staged_batches=numbers)
    known = known_commit(store.server, repeated)
    assert known == result


def test_batches_of_another_bulk_write_of_the_session_are_lost(store: Store) -> None:
    """Of one that a start has ended, while the session went on with one of another table.

    A commit of the ended one that names no batch is refused, too: it committed what the new one had staged.
    """
    ref = store.session()
    store.server.create_table("u", FAMILIES)
    store.server.bulk_writes.open(ref, store.server.table("u"))
    numbers = store.stage(ref, (b"a", b"1"), (b"b", b"1"))
    number = store.write_of(ref).write.write_number
    abandon(store.server)
    (store.folder / "staging" / str(number) / "batch-00000001").unlink()
    store.open()
    store.server.bulk_writes.open(ref, store.server.table("t"))
    assert store.stage(ref, (b"c", b"1"), (b"d", b"1")) == numbers
    with pytest.raises(CorruptionError, match="2 of 2 are lost") as caught:
        store.commit(ref, number=number, staged_batches=numbers)
    assert caught.value.path == store.folder / "staging" / str(number) / "batch-00000001"
    with pytest.raises(InvalidRequestError, match=f"bulk write {number} of table 't' has ended"):
        store.commit(ref, number=number)
    assert store.content() == {}
    own = store.write_of(ref).write.write_number
    assert store.commit(ref, number=own, staged_batches=numbers).row_count == 2


def test_a_crash_at_any_call_of_the_first_batch_after_a_restart_gives_no_number_twice(tmp_path: Path) -> None:
    given = set()
    for call in drawn_calls(100, 6, "first batch after a restart"):
        disk = SimulatedFiles(tmp_path / f"disk-{call}")
        store = Store(disk.root, Clock(), disk)
        store.server.create_table("t", FAMILIES)
        ref = store.session()
        numbers = store.stage(ref, (b"a", b"1"))
        store.crash()
        disk.crash_at(call)
        staged = [b"a"]
        with contextlib.suppress(*CRASHED):
            for row in (b"b", b"c"):
                numbers += store.stage(ref, (row, b"1"))
                staged.append(row)
        has_crashed = disk.is_dead
        image = disk.power_failure(tmp_path / f"image-{call}", Loss.NOTHING if call % 8 < 4 else Loss.ALL)
        again = Store(image, Clock())
        [number] = again.stage(ref, (b"d", b"1"))
        given.add(number)
        where = f"call {call}: {numbers}, {number}"
        assert number > max(numbers), where
        again.commit(ref, staged_batches=[*numbers, number])
        assert again.content().keys() >= {*staged, b"d"}, where
        again.server.stop()
        with contextlib.suppress(SimulatedCrash):
            abandon(store.server)
        if not has_crashed:
            break
    assert len(staged) == 3
    assert given == {BLOCK + 1, 2 * BLOCK + 1}
