"""Bulk writes: staged invisibly, committed over all regions at once or not at all, also by a crash at any call."""

from __future__ import annotations

import contextlib
import errno
import re
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from rowlock_regionserver.catalog.catalog import CatalogState
from rowlock_regionserver.catalog.commits import Identity
from rowlock_regionserver.catalog.live_catalog import LiveCatalog
from rowlock_regionserver.cells import Family
from rowlock_regionserver.clock import Clock, ManualClock
from rowlock_regionserver.errors import (
    ConflictError,
    DiskFullError,
    InvalidRequestError,
    LockUnavailableError,
    NotServingRegionError,
    SessionEndedError,
    StoppingError,
    UnknownOutcomeError,
)
from rowlock_regionserver.host.bulk_commit import (
    CommitRequest,
    RegionsMovedError,
    commit_bulk_write,
    known_commit,
    regions_locked,
)
from rowlock_regionserver.locks.lock_matrix import Operation
from rowlock_regionserver.locks.table_locks import Caller
from rowlock_regionserver.operations import RequestId
from rowlock_regionserver.region.region import Region
from rowlock_regionserver.sessions.session import SessionRef

from tests.crash.orphans import orphans
from tests.crash.simulated_files import Loss, SimulatedCrash, SimulatedFiles
from tests.drawn_cases import TRIES_ALL, drawn_calls
from tests.unit.host.bulk_store import FAMILIES, ID, ONLY_ON_REQUEST, ROWS, Store, everywhere
from tests.unit.host.several_regions import make_tables_of_several_regions
from tests.unit.region.conftest import abandon, bulk_batch


@pytest.fixture(autouse=True)
def several_regions(monkeypatch: pytest.MonkeyPatch) -> None:
    make_tables_of_several_regions(monkeypatch, [b"g", b"m", b"t"])


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    made = Store(tmp_path / "data")
    made.server.create_table("t", FAMILIES)
    yield made
    made.server.stop()


def test_what_is_staged_is_invisible_until_its_commit_which_has_all_of_it(store: Store) -> None:
    store.put(b"a", b"old")
    ref = store.session()
    store.stage(ref, *everywhere(b"1"))
    store.stage(ref, (b"a", b"2"))
    assert store.content() == {b"a": b"old"}
    [info] = store.server.clients.sessions.infos()
    assert [re.sub("[0-9.]+", "N", item.text) for item in info.held] == ["bulk write of t (N KiB)"]
    result = store.commit(ref)
    assert (result.row_count, result.cell_count, result.is_repeated) == (5, 5, False)
    expected = {**dict(everywhere(b"1")), b"a": b"2"}
    assert store.content() == expected
    assert store.staging == []
    assert store.server.clients.sessions.infos()[0].held == ()
    store.crash()
    assert store.content() == expected
    store.server.flush("t")
    assert store.bulk_files == []
    store.crash()
    assert store.content() == expected


def test_a_later_change_wins_and_one_stamp_is_later_than_all_before(store: Store) -> None:
    ref = store.session()
    store.stage(ref, (b"a", b"staged"))
    store.put(b"a", b"before the commit")
    result = store.commit(ref)
    assert store.content() == {b"a": b"staged"}
    store.put(b"a", b"after the commit")
    assert store.content() == {b"a": b"after the commit"}
    assert result.timestamp >= store.clock.now_ms()


def test_cells_with_and_without_timestamps_of_one_batch(store: Store) -> None:
    now = store.clock.now_ms()
    ref = store.session()
    batch = bulk_batch(
        (b"a", b"f", b"q", now + 5000, b"ahead"), (b"a", b"f", b"q", None, b"stamped"), (b"b", b"f", b"q", None, None)
    )
    store.stage(ref, batch=batch)
    assert store.commit(ref).cell_count == 3
    assert store.content() == {b"a": b"ahead"}


def test_an_aborted_write_leaves_nothing(store: Store) -> None:
    ref = store.session()
    store.stage(ref, *everywhere(b"1"))
    assert len(store.bulk_files) == 4
    store.server.clients.sessions.end(ref, "aborted")
    assert store.bulk_files == store.staging == []
    with pytest.raises(SessionEndedError, match="aborted"):
        store.commit(ref)
    assert store.content() == {}


def test_another_client_neither_stages_commits_nor_aborts_a_bulk_write(store: Store) -> None:
    ref = store.session()
    store.stage(ref, *everywhere(b"1"))
    abort, table = store.server.bulk_writes.abort, store.server.table("t")
    foreign = SessionRef(ref.session_id)  # It knows the id from the list of sessions.
    for call in (store.commit, lambda ref: store.stage(ref, (b"a", b"2")), lambda ref: abort(ref, table)):
        with pytest.raises(InvalidRequestError, match="without its number, so it may be that of another client"):
            call(foreign)
    own = store.server.clients.sessions.open("other", "kim").ref
    for call in (store.commit, lambda ref: store.stage(ref, (b"a", b"2"))):
        with pytest.raises(InvalidRequestError, match="session 'other' has no bulk write of table 't'"):
            call(own)
    abort(own, table)
    assert store.content() == {}
    assert store.commit(ref).row_count == 4
    assert store.content() == dict(everywhere(b"1"))


def test_staged_batches_survive_a_restart_with_their_session(store: Store) -> None:
    ref = store.session()
    store.stage(ref, *everywhere(b"1"))
    store.crash()
    [info] = store.server.clients.sessions.infos()
    assert (info.ref, info.owner, len(info.held)) == (ref, "ana", 1)
    store.server.stop()
    store.open()
    assert store.content() == {}
    store.commit(ref)
    assert store.content() == dict(everywhere(b"1"))
    assert store.server.clients.sessions.open("other", "ana").number > ref.number


def test_a_session_that_dies_after_a_restart_frees_what_it_staged(store: Store) -> None:
    assert isinstance(store.clock, ManualClock)
    ref = store.session()
    store.stage(ref, *everywhere(b"1"))
    store.crash()
    store.clock.advance(300_000)
    with pytest.raises(SessionEndedError):
        store.server.clients.sessions.heartbeat(ref)
    while store.server.clients.sessions.infos():
        threading.Event().wait(0.001)
    assert store.bulk_files == store.staging == []


def test_a_repeated_batch_is_staged_once_also_after_a_restart(store: Store) -> None:
    ref = store.session()
    store.stage(ref, (b"a", b"1"), sequence=7)
    store.stage(ref, (b"a", b"2"), sequence=8)
    store.crash()
    store.stage(ref, (b"a", b"1"), sequence=7)
    assert store.commit(ref).row_count == 2
    assert store.content() == {b"a": b"2"}


def test_a_part_of_a_batch_that_was_staged_is_not_staged_again(store: Store) -> None:
    ref = store.session()
    store.stage(ref, (b"a", b"1"), sequence=1)
    (region,) = store.server.regions_of("t", b"a", b"b")
    data = bulk_batch((b"a", b"f", b"q", None, b"2"))
    part = RequestId(bytes(16), 2, 1, 5, (1,))
    assert store.server.bulk_writes.stage(ref, region, data, part).repeated_request
    other = RequestId(bytes(16), 4, 1, 5, (3,))
    assert not store.server.bulk_writes.stage(ref, region, data, other).repeated_request
    assert store.server.bulk_writes.stage(ref, region, data, other).repeated_request
    assert store.commit(ref).row_count == 2


def test_a_repeated_commit_is_answered_and_not_made_twice(store: Store) -> None:
    ref = store.session()
    store.stage(ref, (b"a", b"1"))
    number = store.server.bulk_writes.open(ref, store.server.table("t"))
    result = store.commit(ref, number=number)
    store.put(b"a", b"later")
    assert known_commit(store.server, CommitRequest(ref, "t", number=number)) == result
    assert store.commit(ref, number=number) == result
    store.crash()
    assert known_commit(store.server, CommitRequest(ref, "t", number=number)) == result
    assert store.content() == {b"a": b"later"}
    assert known_commit(store.server, CommitRequest(ref, "t", number=number + 1)) is None


def test_a_session_may_write_a_table_several_times(store: Store) -> None:
    ref = store.session()
    numbers = []
    for value in (b"1", b"2"):
        numbers.append(store.server.bulk_writes.open(ref, store.server.table("t")))
        store.stage(ref, (b"a", value))
        store.commit(ref, number=numbers[-1])
        assert store.content() == {b"a": value}
    assert numbers[1] > numbers[0]


def test_a_write_that_is_being_committed_is_not_aborted(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    ref = store.session()
    store.stage(ref, (b"a", b"1"))
    commit = LiveCatalog.commit

    def abort_first(catalog: LiveCatalog, state: CatalogState) -> None:
        with pytest.raises(InvalidRequestError, match="is being committed already"):
            store.server.bulk_writes.abort(ref, store.server.table("t"))
        commit(catalog, state)

    monkeypatch.setattr(LiveCatalog, "commit", abort_first)
    store.commit(ref)
    monkeypatch.undo()
    store.crash()
    assert store.content() == {b"a": b"1"}


# ---- replace


@pytest.mark.parametrize("is_flushed", [True, False])
def test_a_replacement_hides_everything_older_and_a_snapshot_still_sees_it(store: Store, *, is_flushed: bool) -> None:
    for row in (*ROWS, b"b", b"y"):
        store.put(row, b"old")
    before = store.content()
    if is_flushed:
        store.server.flush("t")
    store.put(b"z", b"old")
    before[b"z"] = b"old"
    store.server.make_snapshot("t", ID, 0, "")
    ref = store.session()
    store.stage(ref, (b"b", b"new"), (b"x", b"new"))
    store.commit(ref, replaces=True)
    after = {b"b": b"new", b"x": b"new"}
    assert store.content() == after
    assert store.content(ID) == before
    store.crash()
    assert store.content() == after
    store.server.flush("t")
    assert store.content() == after
    store.put(b"a", b"again")
    assert store.content() == {**after, b"a": b"again"}


def test_a_replacement_of_a_range_leaves_other_rows(store: Store) -> None:
    for row in ROWS:
        store.put(row, b"old")
    ref = store.session()
    store.stage(ref, (b"i", b"new"))
    store.commit(ref, replaces=True, ranges=((b"h", b"q"),))
    assert store.content() == {b"a": b"old", b"i": b"new", b"x": b"old"}
    other = store.session("other")
    store.stage(other, (b"a", b"new"))
    with pytest.raises(InvalidRequestError, match="not all in the range that it may write; nothing was committed"):
        store.commit(other, ranges=((b"h", b"q"),))
    store.commit(other)


def test_an_empty_replacement_empties_the_table(store: Store) -> None:
    for row in ROWS:
        store.put(row, b"old")
    store.commit(store.session(), replaces=True)
    assert store.content() == {}


def test_cells_that_are_ahead_of_the_clock_are_replaced_too(store: Store) -> None:
    ref = store.session()
    store.stage(ref, batch=bulk_batch((b"a", b"f", b"q", store.clock.now_ms() + 80_000_000, b"ahead")))
    store.commit(ref)
    assert store.content() == {b"a": b"ahead"}
    store.commit(store.session("other"), replaces=True)
    assert store.content() == {}


# ---- first committer wins


@pytest.mark.parametrize("is_flushed", [True, False])
def test_a_commit_is_refused_if_a_row_has_changed_since_its_snapshot(store: Store, *, is_flushed: bool) -> None:
    for row in ROWS:
        store.put(row, b"old")
    store.server.make_snapshot("t", ID, 0, "")
    ref = store.session()
    store.stage(ref, (b"a", b"new"), (b"x", b"new"))
    store.put(b"h", b"of another row")
    store.put(b"x", b"changed")
    if is_flushed:
        store.server.flush("t")
    with pytest.raises(ConflictError, match=r"nothing was written, take a new snapshot") as caught:
        store.commit(ref, snapshot_id=ID)
    assert caught.value.rows == [b"x"]
    assert store.content()[b"a"] == b"old"
    with pytest.raises(ConflictError) as caught:
        store.commit(ref, snapshot_id=ID, replaces=True)
    assert caught.value.rows == [b"h", b"x"]
    store.commit(ref)
    assert store.content()[b"x"] == b"new"


def test_of_two_commits_from_one_snapshot_the_first_wins(store: Store) -> None:
    store.server.make_snapshot("t", ID, 0, "")
    refs = [store.session(name) for name in ("one", "two", "three")]
    for ref, row in zip(refs, (b"a", b"a", b"h"), strict=True):
        store.stage(ref, (row, ref.session_id.encode()))
    store.commit(refs[0], snapshot_id=ID)
    with pytest.raises(ConflictError):
        store.commit(refs[1], snapshot_id=ID)
    store.commit(refs[2], snapshot_id=ID)
    assert store.content() == {b"a": b"one", b"h": b"three"}


# ---- once


def test_a_commit_of_a_known_identity_does_nothing(store: Store) -> None:
    assert isinstance(store.clock, ManualClock)
    for number in (17, 18, 17, 19, 18):
        ref = store.session(f"job-{number}")
        store.stage(ref, (b"a", b"%d" % number))
        result = store.commit(ref, identity=Identity("daily", number))
        store.server.clients.sessions.end(ref, "over")
    assert result.is_repeated
    assert store.content() == {b"a": b"19"}
    assert len(store.server.commit_parts().commits.identities) == 1
    store.crash()
    store.clock.advance(29 * 86_400_000)
    ref = store.session()
    assert store.commit(ref, identity=Identity("daily", 18)).is_repeated
    assert store.staging == []
    assert not store.commit(store.session("other"), identity=Identity("weekly", 18)).is_repeated


def test_a_truncated_table_keeps_the_identities_of_its_commits_and_a_new_one_has_none(store: Store) -> None:
    def load() -> bool:
        ref = store.session()
        store.stage(ref, *everywhere(b"1"))
        result = store.commit(ref, identity=Identity("daily", 17))
        store.server.clients.sessions.end(ref, "over")
        return result.is_repeated

    assert not load()
    store.server.truncate_table("t")
    assert load()
    assert store.content() == {}
    store.server.drop_table("t")
    store.server.create_table("t", FAMILIES)
    assert not load()
    assert store.content() == dict(everywhere(b"1"))


# ---- refusals


def test_what_cannot_be_committed_is_refused_and_stays_staged(store: Store) -> None:
    ref = store.session()
    store.stage(ref, (b"a", b"1"))
    store.server.alter_table("t", drop_families=[b"f"], set_families=[Family(0, b"h")])
    with pytest.raises(InvalidRequestError, match="a column family of the bulk write of table 't' was dropped"):
        store.commit(ref)
    with pytest.raises(InvalidRequestError, match="has no bulk write of table 't'; open one"):
        store.commit(store.server.clients.sessions.open("empty", "ana").ref)


def test_a_bulk_write_is_committed_to_the_regions_that_the_table_has_then(store: Store) -> None:
    """Those that it was staged for were truncated, or split and merged."""
    ref = store.session()
    store.stage(ref, (b"a", b"1"), (b"m", b"1"))
    store.server.truncate_table("t")
    store.put(b"m", b"0")
    store.stage(ref, (b"m", b"2"), (b"z", b"2"))
    *_, left, right = store.server.regions_of("t")
    store.server.split_region("t", left.region_id, b"n")
    store.crash()
    *_, left, right = store.server.regions_of("t")
    store.server.merge_regions("t", left.region_id, right.region_id)
    assert store.content() == {b"m": b"0"}
    assert store.commit(ref).row_count == 4
    assert store.content() == {b"a": b"1", b"m": b"2", b"z": b"2"}
    assert store.staging == []
    store.crash()
    assert store.content() == {b"a": b"1", b"m": b"2", b"z": b"2"}


def test_a_commit_whose_regions_were_split_while_it_waited_does_nothing(store: Store) -> None:
    """The caller then locks the regions of today."""
    ref = store.session()
    store.stage(ref, (b"a", b"1"), (b"z", b"1"))
    request = CommitRequest(ref, "t")
    locked = regions_locked(store.server, request)
    *_, last = store.server.regions_of("t")
    store.server.split_region("t", last.region_id, b"y")
    with pytest.raises(RegionsMovedError):
        commit_bulk_write(store.server, request, Caller("ana", ref), locked)
    assert store.content() == {}
    assert store.commit(ref).row_count == 2
    assert store.content() == {b"a": b"1", b"z": b"1"}


def test_a_commit_takes_its_locks(store: Store) -> None:
    ref = store.session()
    store.stage(ref, (b"a", b"1"))
    region = store.server.regions_of("t", b"x")[0].region_id
    with (
        store.server.clients.locked(Operation.SPLIT, "t", Caller("kim"), [region]),
        pytest.raises(LockUnavailableError),
    ):
        store.commit(ref)
    with store.server.clients.locked(Operation.SNAPSHOT, "t", Caller("kim")):
        with pytest.raises(LockUnavailableError):
            store.commit(ref, replaces=True)
        store.commit(ref)


# ---- what others see and do meanwhile


def test_no_reader_sees_a_commit_before_its_commit_point(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    store.put(b"a", b"old")
    ref = store.session()
    store.stage(ref, *everywhere(b"new"))
    commit, seen = LiveCatalog.commit, []

    def look_first(catalog: LiveCatalog, state: CatalogState) -> None:
        seen.append(store.content())
        commit(catalog, state)

    monkeypatch.setattr(LiveCatalog, "commit", look_first)
    store.commit(ref)
    assert seen[-1] == {b"a": b"old"}
    assert store.content() == dict(everywhere(b"new"))


def test_a_row_that_comes_while_a_replacement_is_prepared_is_replaced_too(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.put(b"a", b"old")
    ref = store.session()
    enter = Region.without_writes
    late = [b"b", b"y"]

    def write_first(region: Region, deadline: float) -> contextlib.AbstractContextManager[None]:
        while late:
            store.put(late.pop(), b"late")
        return enter(region, deadline)

    monkeypatch.setattr(Region, "without_writes", write_first)
    store.commit(ref, replaces=True)
    assert store.content() == {}


# ---- crashes

BEFORE = {b"a": b"old", b"k": b"old"}
AFTER = {**dict(everywhere(b"new")), b"k": b"old"}
REPLACED = dict(everywhere(b"new"))


@pytest.mark.parametrize("replaces", [False, True])
def test_a_crash_at_any_call_of_a_commit_leaves_all_of_it_or_nothing(tmp_path: Path, *, replaces: bool) -> None:
    after = REPLACED if replaces else AFTER
    committed = again_committed = 0
    for call in drawn_calls(120, 4, f"commit {replaces}"):
        disk = SimulatedFiles(tmp_path / f"disk-{call}")
        store = Store(disk.root, Clock(), disk)
        store.server.create_table("t", FAMILIES, properties=ONLY_ON_REQUEST)
        store.put(b"a", b"old")
        store.server.flush("t")
        store.put(b"k", b"old")
        ref = store.session()
        store.stage(ref, *everywhere(b"new"))
        disk.crash_at(call)
        acknowledged = False
        # The last two: the log's thread has met the crash first.
        with contextlib.suppress(SimulatedCrash, UnknownOutcomeError, StoppingError, NotServingRegionError):
            store.commit(ref, replaces=replaces)
            acknowledged = True
        has_crashed = disk.is_dead
        for loss in (Loss.NOTHING, Loss.ALL) if replaces else (Loss.ALL,):
            image = disk.power_failure(tmp_path / f"image-{call}-{loss.name}", loss)
            for restart in range(2):
                again = Store(image, Clock())
                assert again.server.damaged_regions() == {}, f"call {call}, {loss.name}"
                found = again.content()
                assert found == after or (found == BEFORE and not acknowledged), f"call {call}, {loss.name}, {restart}"
                if restart:
                    if found == BEFORE:  # The session is open with all that it staged.
                        again.commit(ref, replaces=replaces)
                        again_committed += 1
                    else:
                        assert again.staging == []
                        committed += 1
                    assert again.content() == after
                    again.server.flush("t")
                    assert (again.bulk_files, again.content()) == ([], after)
                    assert orphans(again.server, again.folder, again.files) is None
                again.server.stop()
        with contextlib.suppress(SimulatedCrash):
            abandon(store.server)
        if not has_crashed:
            break
    assert acknowledged
    assert call > 8
    assert min(committed, again_committed) > (4 if TRIES_ALL else 1)


def test_a_full_disk_refuses_a_commit_and_nothing_of_it_is_seen(tmp_path: Path) -> None:
    refused = 0
    for call in range(1, 30):
        disk = SimulatedFiles(tmp_path / f"disk-{call}")
        store = Store(disk.root, Clock(), disk)
        store.server.create_table("t", FAMILIES)
        store.put(b"k", b"old")
        ref = store.session()
        store.stage(ref, *everywhere(b"new"))
        store.server.clients.numbers.prepare()
        disk.fail_at(call, errno.ENOSPC)
        try:
            store.commit(ref)
        except DiskFullError:
            refused += 1
            assert store.content() == {b"k": b"old"}
            store.put_after_a_full_disk(b"l", b"other")
            store.commit(ref)
        except (UnknownOutcomeError, StoppingError, NotServingRegionError, OSError):  # The log failed: the server ends.
            continue
        disk.revive()
        assert store.content().items() >= dict(everywhere(b"new")).items()
        store.crash()
        assert store.content().items() >= dict(everywhere(b"new")).items()
        store.server.stop()
    assert refused
