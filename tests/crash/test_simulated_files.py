"""The simulated disk: what a power failure leaves of a file with several names."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.crash.simulated_files import Loss, Moment, SimulatedCrash, SimulatedFiles


@pytest.fixture
def disk(tmp_path: Path) -> SimulatedFiles:
    """A disk with two folders, and a durable file in one of them."""
    disk = SimulatedFiles(tmp_path / "data")
    for name in ("parent", "daughter"):
        disk.make_folder(disk.root / name)
    descriptor = disk.open(disk.root / "parent" / "file", os.O_RDWR | os.O_CREAT)
    disk.pwrite(descriptor, b"content", 0)
    disk.fsync(descriptor)
    disk.close(descriptor)
    for folder in (disk.root / "parent", disk.root):
        disk.fsync_folder(folder)
    return disk


def left(disk: SimulatedFiles, loss: Loss, seed: int = 0) -> dict[str, bytes]:
    """Returns the files after a power failure, by their paths."""
    root = disk.power_failure(disk.root.parent / f"after-{loss.name}-{len(disk.calls)}-{seed}", loss, seed)
    return {str(path.relative_to(root)): path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file()}


def test_a_link_is_lost_until_its_folder_is_synced(disk: SimulatedFiles) -> None:
    disk.link(disk.root / "parent" / "file", disk.root / "daughter" / "link")
    one, both = {"parent/file": b"content"}, {"parent/file": b"content", "daughter/link": b"content"}
    assert left(disk, Loss.ALL) == one
    assert left(disk, Loss.NOTHING) == both
    assert {len(left(disk, Loss.SOME, seed)) for seed in range(20)} == {1, 2}
    disk.fsync_folder(disk.root / "parent")
    assert left(disk, Loss.ALL) == one, "the other folder was synced"
    disk.fsync_folder(disk.root / "daughter")
    assert left(disk, Loss.ALL) == both


def test_the_content_stays_as_long_as_a_name_does(disk: SimulatedFiles) -> None:
    file, link = disk.root / "parent" / "file", disk.root / "daughter" / "link"
    disk.link(file, link)
    disk.fsync_folder(link.parent)
    disk.remove(file)
    disk.fsync_folder(file.parent)
    assert left(disk, Loss.ALL) == {"daughter/link": b"content"}
    disk.remove(link)
    disk.fsync_folder(link.parent)
    assert left(disk, Loss.ALL) == {}


def test_both_names_have_the_same_content_after_a_power_failure(disk: SimulatedFiles) -> None:
    file, link = disk.root / "parent" / "file", disk.root / "daughter" / "link"
    disk.link(file, link)
    disk.fsync_folder(link.parent)
    descriptor = disk.open(file, os.O_RDWR)
    disk.pwrite(descriptor, b"changed" * 1000, 0)
    disk.close(descriptor)
    for seed in range(20):
        found = left(disk, Loss.SOME, seed)
        assert found["parent/file"] == found["daughter/link"]


@pytest.mark.parametrize(("moment", "is_there"), [(Moment.BEFORE, False), (Moment.AFTER, True)])
def test_a_crash_may_come_before_or_after_a_link(disk: SimulatedFiles, moment: Moment, is_there: bool) -> None:
    disk.crash_at(1, moment)
    with pytest.raises(SimulatedCrash, match="link of link"):
        disk.link(disk.root / "parent" / "file", disk.root / "daughter" / "link")
    assert (disk.root / "daughter" / "link").exists() is is_there
