"""A crash or a full disk at each file-system call of a large bulk write: all of it, or nothing, and no orphans.

A run tries some calls, from one on that its seed draws; `make crash` tries each call.
"""

from __future__ import annotations

import contextlib
import errno
from pathlib import Path

import pytest
from rowlock_regionserver.clock import Clock
from rowlock_regionserver.errors import DiskFullError, NotServingRegionError, StoppingError, UnknownOutcomeError
from rowlock_regionserver.sessions.session import SessionRef

from tests.crash.simulated_files import Loss, SimulatedCrash, SimulatedFiles
from tests.drawn_cases import drawn, drawn_calls
from tests.unit.host.bulk_store import FAMILIES, ONLY_ON_REQUEST, Store, everywhere
from tests.unit.host.several_regions import make_tables_of_several_regions
from tests.unit.region.conftest import abandon

# A bulk file is larger, so each batch but the last one is spilled.
SMALL = 100


@pytest.fixture(autouse=True)
def several_regions(monkeypatch: pytest.MonkeyPatch) -> None:
    make_tables_of_several_regions(monkeypatch, [b"g", b"m", b"t"])


# The last two: the log's thread has met the crash first.
CRASHED = (SimulatedCrash, UnknownOutcomeError, StoppingError, NotServingRegionError)
BEFORE = {b"a": b"old", b"k": b"old"}
NEW = {**dict(everywhere(b"new")), b"a2": b"new"}


def stage_new(store: Store, ref: SessionRef) -> None:
    """Stages so that each region has a spill, and one a batch beside it."""
    store.stage(ref, *everywhere(b"new"), (b"a2", b"new"))
    write = store.write_of(ref)
    assert (len(write.contents.spills), len(write.staged())) == (4, 1)


def open_on(disk: SimulatedFiles) -> tuple[Store, SessionRef]:
    """Returns a server on the disk with two old rows, of which one is flushed, and an open bulk write."""
    store = Store(disk.root, Clock(), disk, SMALL)
    store.server.create_table("t", FAMILIES, properties=ONLY_ON_REQUEST)
    store.put(b"a", b"old")
    store.server.flush("t")
    store.put(b"k", b"old")
    return store, store.session()


def check_no_orphans(store: Store) -> None:
    """Asserts that the regions' folders have the live store files and no others, and that nothing else is left."""
    assert (store.bulk_files, store.staging) == ([], [])
    for region in store.server.regions_of("t"):
        folder = store.folder / "regions" / str(region.region_id)
        live = {file.path.name for each in region.stores.all() for file in each.files}
        assert {path.name for path in folder.glob("*.store*")} == live
    assert not list((store.folder / "set-aside").glob("*"))


@pytest.mark.parametrize("replaces", [False, True])
def test_a_crash_at_any_call_of_a_large_commit_leaves_all_of_it_or_nothing(tmp_path: Path, *, replaces: bool) -> None:
    after = NEW if replaces else {**NEW, b"k": b"old"}
    committed = again_committed = 0
    for call in drawn_calls(500, 5, f"large commit {replaces}"):
        disk = SimulatedFiles(tmp_path / f"disk-{call}")
        store, ref = open_on(disk)
        stage_new(store, ref)
        disk.crash_at(call)
        acknowledged = False
        with contextlib.suppress(*CRASHED):
            store.commit(ref, replaces=replaces)
            acknowledged = True
            store.server.bulk_writes.remove_ended()
        has_crashed = disk.is_dead
        for loss in (Loss.NOTHING, Loss.ALL) if call % 16 < 4 else (Loss.ALL,):
            image = disk.power_failure(tmp_path / f"image-{call}-{loss.name}", loss)
            for restart in range(2):
                again = Store(image, Clock(), spills_at=SMALL)
                where = f"call {call}, {loss.name}, restart {restart}"
                assert again.server.damaged_regions() == {}, where
                found = again.content()
                assert found == after or (found == BEFORE and not acknowledged), where
                if restart:
                    if found == BEFORE:  # The session is open with all that it staged.
                        again.commit(ref, replaces=replaces)
                        again_committed += 1
                    else:
                        committed += 1
                    assert again.content() == after, where
                    again.server.flush("t")
                    assert again.content() == after, where
                    check_no_orphans(again)
                again.server.stop()
        with contextlib.suppress(SimulatedCrash):
            abandon(store.server)
        if not has_crashed:
            break
    assert acknowledged
    assert min(committed, again_committed) > 1


def test_a_crash_at_any_call_of_a_spill_loses_no_batch_that_was_staged(tmp_path: Path) -> None:
    spilled = 0
    for call in drawn_calls(500, 8, "spill"):
        disk = SimulatedFiles(tmp_path / f"disk-{call}")
        store, ref = open_on(disk)
        disk.crash_at(call)
        staged: dict[bytes, bytes] = {}
        with contextlib.suppress(*CRASHED):
            for row in (b"a", b"h", b"a2", b"h2"):
                store.stage(ref, (row, b"new"))
                staged[row] = b"new"
        has_crashed = disk.is_dead
        image = disk.power_failure(tmp_path / f"image-{call}", Loss.NOTHING if call % 8 < 4 else Loss.ALL)
        again = Store(image, Clock(), spills_at=SMALL)
        assert again.content() == BEFORE
        spilled += bool(again.write_of(ref).contents.spills)
        again.stage(ref, (b"z", b"last"))
        again.commit(ref)
        found = again.content()
        assert found.items() >= {**staged, b"z": b"last"}.items(), f"call {call}"
        again.server.flush("t")
        check_no_orphans(again)
        again.server.stop()
        with contextlib.suppress(SimulatedCrash):
            abandon(store.server)
        if not has_crashed:
            break
    assert len(staged) == 4
    assert spilled > 1


def test_a_full_disk_refuses_a_large_commit_and_nothing_of_it_is_seen(tmp_path: Path) -> None:
    refused = 0
    for call in drawn(range(1, 120, 3), 10, "a full disk at a large commit"):
        disk = SimulatedFiles(tmp_path / f"disk-{call}")
        store, ref = open_on(disk)
        stage_new(store, ref)
        store.server.clients.numbers.prepare()
        disk.fail_at(call, errno.ENOSPC)
        try:
            store.commit(ref)
        except DiskFullError:
            refused += 1
            assert store.content() == BEFORE
            store.put_after_a_full_disk(b"l", b"other")
            store.commit(ref)
        except (UnknownOutcomeError, StoppingError, NotServingRegionError, OSError):
            # The log failed, and the server ends; perhaps it has closed its regions by now.
            continue
        disk.revive()
        for _ in range(2):
            assert store.content().items() >= NEW.items()
            store.crash()
        store.server.stop()
    assert refused
