"""A missing newest generation of the catalog or of a manifest is reported, and nothing is deleted because of it."""

from __future__ import annotations

from pathlib import Path

import pytest
from rowlock_regionserver.catalog.catalog import read_catalog
from rowlock_regionserver.cells import Durability, Family
from rowlock_regionserver.config import Config
from rowlock_regionserver.errors import CorruptionError
from rowlock_regionserver.files import Files
from rowlock_regionserver.host.leftovers import lost_catalog
from rowlock_regionserver.inspection.verify import Verification, verify_folder
from rowlock_regionserver.region.new_region import make_region_folder
from rowlock_regionserver.table import Table
from rowlock_regionserver.wal.marker import RegionState
from rowlock_regionserver.wal.recovered import Recovered

from tests.unit.host.stopped_folder import FAMILIES, content_of, cut_drop_short, killed, newest, opened, put, rows_of
from tests.unit.region.conftest import abandon


def verified(folder: Path) -> Verification:
    found = Verification()
    verify_folder(folder, Files(), found)
    return found


def contents_of(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The folder of a killed server: tables `old` and `young`, each with rows in a store file and in the log."""
    served = tmp_path / "served"
    served.mkdir()
    server = opened(served)
    for table in ("old", "young"):
        server.create_table(table, FAMILIES)
        put(server, table, b"flushed")
        server.flush(table)
        put(server, table, b"logged")
    return killed(server, served, tmp_path / "data")


def check_refused(folder: Path, path: Path) -> None:
    """Checks that start and verify name the lost generation, and that no byte of the regions changes."""
    before = contents_of(folder / "regions")
    with pytest.raises(CorruptionError) as refusal:
        opened(folder)
    assert refusal.value.path == path
    assert contents_of(folder / "regions") == before
    assert path in [damage.path for damage in verified(folder).damage]


def test_the_newest_catalog_is_missed_when_it_made_a_table(folder: Path) -> None:
    lost = newest(folder / "catalog", "catalog")
    kept = lost.read_bytes()
    lost.unlink()
    check_refused(folder, lost)
    lost.write_bytes(kept)
    server = opened(folder)
    assert content_of(server) == {
        table: {b"flushed": [b"f", b"g"], b"logged": [b"f", b"g"]} for table in ("old", "young")
    }
    server.stop()


@pytest.mark.parametrize("operation", ["alter", "drop", "truncate", "create"])
def test_the_newest_catalog_is_missed_whatever_it_did(folder: Path, tmp_path: Path, operation: str) -> None:
    server = opened(folder)
    match operation:
        case "alter":
            server.alter_table("old", [Family(0, b"f", versions=5)])
        case "drop":
            server.drop_table("old")
        case "truncate":
            server.truncate_table("old")
        case _:
            server.create_table("empty", FAMILIES)
    image = killed(server, folder, tmp_path / "image")
    lost = newest(image / "catalog", "catalog")
    lost.unlink()
    check_refused(image, lost)


def test_the_newest_catalog_is_missed_after_a_restart_too(folder: Path) -> None:
    server = opened(folder)
    server.alter_table("old", [Family(0, b"f", versions=5)])
    server.stop()
    opened(folder).stop()
    lost = newest(folder / "catalog", "catalog")
    lost.unlink()
    check_refused(folder, lost)


def test_a_region_that_the_catalog_has_never_given_shows_that_a_later_one_is_lost(tmp_path: Path) -> None:
    server = opened(tmp_path)
    server.create_table("old", FAMILIES)
    found = read_catalog(Files(), tmp_path / "catalog")
    assert found is not None
    _, older = found
    server.create_table("young", FAMILIES)
    put(server, "young", b"r")

    def lost(*region_ids: int) -> str:
        # Like the log of the version before: no generation is noted.
        recovered = Recovered(bytes(16), regions=dict.fromkeys(region_ids, RegionState()))
        error = lost_catalog(tmp_path, Files(), 2, older, recovered)
        return error.path.name if error is not None else ""

    assert lost(1) == ""
    assert lost(1, 2) == "catalog-0000000000000003"
    server.flush("young")
    assert lost(1) == "catalog-0000000000000003", "its folder holds store files"
    server.stop()


def test_the_newest_manifest_is_missed_and_its_region_closed(folder: Path) -> None:
    lost = newest(folder / "regions" / "2", "manifest")
    kept = lost.read_bytes()
    before = contents_of(folder / "regions" / "2")
    lost.unlink()
    assert lost in [damage.path for damage in verified(folder).damage]
    server = opened(folder)
    assert content_of(server) == {"old": {b"flushed": [b"f", b"g"], b"logged": [b"f", b"g"]}, "young": lost.name}
    abandon(server)
    lost.write_bytes(kept)
    assert contents_of(folder / "regions" / "2") == before, "something of it was removed"
    server = opened(folder)
    assert content_of(server)["young"] == {b"flushed": [b"f", b"g"], b"logged": [b"f", b"g"]}
    server.stop()


def test_rows_that_were_flushed_and_never_logged_are_not_removed_with_a_lost_manifest(tmp_path: Path) -> None:
    server = opened(tmp_path)
    server.create_table("t", FAMILIES, Durability.SKIP)
    put(server, "t", b"r", durability=Durability.SKIP)
    server.flush("t")
    abandon(server)
    folder = tmp_path / "regions" / "1"
    files = sorted(folder.glob("*.store"))
    assert len(files) == 2
    newest(folder, "manifest").unlink()
    server = opened(tmp_path)
    assert list(server.damaged_regions()) == [1]
    server.stop()
    assert sorted(folder.glob("*.store")) == files


def test_no_region_is_flushed_in_recovery_before_a_lost_catalog_is_missed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    served = tmp_path / "served"
    served.mkdir()
    server = opened(served)
    server.create_table("t", [Family(0, b"f", versions=1)])
    server.alter_table("t", [Family(0, b"f", versions=10)])
    for number in range(40):
        put(server, "t", b"%03d" % number, families=[b"f"])
    image = killed(server, served, tmp_path / "image")
    monkeypatch.setattr("rowlock_regionserver.region.region_replay.STRIDE_BYTES", 1)
    small = Config(memstore_bytes_max=4000, memstore_flush_bytes=1000, disk_free_bytes_min=0)
    lost = newest(image / "catalog", "catalog")
    kept = lost.read_bytes()
    lost.unlink()
    with pytest.raises(CorruptionError, match="catalog of generation 3"):
        opened(image, config=small)
    assert list((image / "regions" / "1").glob("*.store")) == [], "by families that are not the newest"
    lost.write_bytes(kept)
    server = opened(image, config=small)
    assert list((image / "regions" / "1").glob("*.store")) != [], "memory was never short"
    assert len(rows_of(server, "t")) == 40
    server.stop()


def test_a_missing_older_generation_is_no_damage(folder: Path) -> None:
    for name, where in (("catalog", folder / "catalog"), ("manifest", folder / "regions" / "1")):
        for path in sorted(where.glob(f"{name}-*"))[:-1]:
            path.unlink()
    assert verified(folder).damage == []
    server = opened(folder)
    assert set(content_of(server)) == {"old", "young"}
    assert server.damaged_regions() == {}
    server.stop()


def test_a_create_that_was_cut_short_leaves_nothing(folder: Path) -> None:
    make_region_folder(Files(), folder / "regions" / "3", 3, Table("lost", 3, ()), Config())
    assert verified(folder).damage == []
    server = opened(folder)
    assert sorted(path.name for path in (folder / "regions").iterdir()) == ["1", "2"]
    assert server.set_aside == ()
    server.stop()


def test_a_drop_that_was_cut_short_leaves_nothing(folder: Path) -> None:
    server = opened(folder)
    abandon(server)
    cut_drop_short(folder, "old")
    assert (folder / "regions" / "1").exists()
    server = opened(folder)
    assert sorted(path.name for path in (folder / "regions").iterdir()) == ["2"]
    assert server.set_aside == ()
    server.stop()


def test_a_flush_that_was_cut_short_leaves_nothing_and_its_number_is_used_again(folder: Path) -> None:
    leftover = folder / "regions" / "1" / "1-000000000007.store"
    leftover.write_bytes(b"half a store file")
    (folder / "regions" / "1" / "1-000000000008.store.temporary").write_bytes(b"a part")
    server = opened(folder)
    assert not list((folder / "regions" / "1").glob("*00[78].store*"))
    put(server, "old", b"more")
    server.flush("old")
    assert set(rows_of(server, "old")) == {b"flushed", b"logged", b"more"}
    server.stop()
    assert server.set_aside == ()


def test_an_unnamed_store_file_may_be_what_a_compaction_replaced(folder: Path) -> None:
    unnamed = folder / "regions" / "1" / "1-000000000009.store"
    unnamed.write_bytes(b"cells that are in another file too")
    (remark,) = verified(folder).remarks
    assert remark.startswith(
        f"unnamed: {unnamed} (its flush was interrupted, its family dropped, or a compaction replaced it); the next"
    )
