"""Change feeds of a region server: what is retained, and what an offset means after splits, merges and restarts."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest
from rowlock_regionserver.cells import Family
from rowlock_regionserver.errors import ChangesExpiredError, InvalidRequestError, TableNotFoundError
from rowlock_regionserver.host.changes import Start
from rowlock_regionserver.operations import Delete, DeleteKind, Increment, Put, WriteOptions
from rowlock_regionserver.region.change_windows import Position
from rowlock_regionserver.region.manifest import read_manifest

from tests.unit.region.conftest import bulk_batch
from tests.waiting import WAIT_S

from .feed_reading import FEED, HOUR_MS, Fed, request, table_of


@pytest.fixture
def fed(tmp_path: Path) -> Iterator[Fed]:
    serving = Fed(tmp_path)
    yield serving
    serving.server.stop()


def kinds_and_values(changes: list[dict[str, object]]) -> list[tuple[object, object]]:
    return [(change["kind"], change["value"]) for change in changes]


# ---- what is retained


def test_every_change_is_read_in_the_order_of_the_changes(fed: Fed) -> None:
    fed.change(b"r", Put(b"f", b"q", b"1", 5), Put(b"g", b"p", b"2", 6))
    fed.change(b"a", Delete(DeleteKind.FAMILY, b"g", b"", 9))
    fed.change(b"r", Delete(DeleteKind.COLUMN, b"f", b"q", 7))
    fed.change(b"r", Delete(DeleteKind.VERSION, b"g", b"p", 6))
    fed.change(b"c", Increment(b"f", b"n", 3))
    changes, _ = fed.read()
    assert [tuple(change.values()) for change in changes[:5]] == [
        (b"r", b"f", b"q", 5, 1, 0, b"1"),
        (b"r", b"g", b"p", 6, 1, 0, b"2"),
        (b"a", b"g", b"", 9, 2, 3, b""),
        (b"r", b"f", b"q", 7, 3, 2, b""),
        (b"r", b"g", b"p", 6, 4, 1, b""),
    ]
    assert kinds_and_values(changes[5:]) == [(0, (3).to_bytes(8, "big"))]


def test_a_repeated_request_is_one_change(fed: Fed) -> None:
    for _ in range(2):
        fed.change(b"r", Put(b"f", b"q", b"1"), request=request(1))
    assert fed.values() == [b"1"]


def in_memory(fed: Fed) -> None: ...


def flushed(fed: Fed) -> None:
    fed.server.flush("fed")


def compacted(fed: Fed) -> None:
    fed.server.flush("fed")
    fed.compact()


def replayed(fed: Fed) -> None:
    fed.crash()


def replayed_and_compacted(fed: Fed) -> None:
    fed.crash()
    compacted(fed)


STEPS = [in_memory, flushed, compacted, replayed, replayed_and_compacted]


@pytest.mark.parametrize("step", STEPS)
def test_overwritten_and_deleted_cells_stay(fed: Fed, step: Callable[[Fed], None]) -> None:
    fed.put_all(b"1", b"2")
    fed.server.flush("fed")
    fed.change(b"r", Delete(DeleteKind.COLUMN, b"f", b"q"))
    fed.put_all(b"3")
    fed.put_all(b"pushed out at once", timestamp=4)
    step(fed)
    assert kinds_and_values(fed.read()[0]) == [(0, b"1"), (0, b"2"), (2, b""), (0, b"3"), (0, b"pushed out at once")]
    assert fed.get(b"r") == [b"3"]


@pytest.mark.parametrize("step", STEPS)
def test_a_row_that_is_written_often_is_not_pruned(fed: Fed, step: Callable[[Fed], None]) -> None:
    values = [b"%d" % number for number in range(200)]
    fed.put_all(*values)
    fed.put_all(*values[:50], row=b"old", timestamp=7)
    step(fed)
    assert fed.values() == [*values, *values[:50]]


@pytest.mark.parametrize("before", [in_memory, flushed])
@pytest.mark.parametrize("step", STEPS)
def test_puts_stay_that_the_state_at_the_horizon_pushes_out_at_once(
    fed: Fed, step: Callable[[Fed], None], before: Callable[[Fed], None]
) -> None:
    """Pruning looks at memory alone, and a compaction needs two files to merge."""
    fed.put_all(b"newest")
    before(fed)
    _, offset = fed.read()
    fed.note_point()
    fed.pass_time(HOUR_MS + 1)
    values = [b"%d" % number for number in range(200)]
    fed.put_all(*values, timestamp=4)
    step(fed)
    assert fed.values(offset) == values
    assert fed.get(b"r") == [b"newest"]


@pytest.mark.parametrize("step", STEPS)
def test_expired_cells_stay(fed: Fed, step: Callable[[Fed], None]) -> None:
    fed.server.alter_table("fed", set_families=[Family(0, b"f", time_to_live_ms=1000)])
    offset = fed.offset
    fed.put_all(b"expires")
    fed.change(b"r", Delete(DeleteKind.COLUMN, b"f", b"p", 5))
    fed.put_all(b"has expired", row=b"s", timestamp=5)
    fed.pass_time(2000)
    assert fed.get(b"r") == fed.get(b"s") == []
    step(fed)
    assert fed.values(offset) == [b"expires", b"", b"has expired"]
    fed.server.flush("fed")
    for region in fed.regions:
        for facts in region.compaction_facts():
            assert all(not file.is_all_expired and not file.expired_count for file in facts.files)


def test_what_is_older_than_the_hours_goes_and_the_offset_expires(fed: Fed) -> None:
    fed.put_all(b"1")
    _, offset = fed.read()
    fed.put_all(b"2", b"3")
    fed.note_point()
    fed.pass_time(HOUR_MS // 2)
    fed.put_all(b"4", b"5")
    compacted(fed)
    assert fed.values(offset) == [b"2", b"3", b"4", b"5"]
    fed.pass_time(HOUR_MS // 2 + 1)
    compacted(fed)
    assert fed.values() == [b"4", b"5"]
    with pytest.raises(ChangesExpiredError, match=r"retained from write number 3 on.*read region .* up to 1: "):
        fed.read(offset)
    fed.pass_time(HOUR_MS + 1)
    compacted(fed)
    assert fed.values() == []
    assert fed.get(b"r") == [b"5"]


def test_without_writes_the_newest_offset_never_expires(fed: Fed) -> None:
    fed.put_all(b"1", b"2")
    _, offset = fed.read()
    for _ in range(5):
        fed.pass_time(HOUR_MS)
        compacted(fed)
    assert fed.read(offset) == ([], offset)


@pytest.mark.parametrize("again", [Fed.restart, Fed.crash])
def test_the_horizon_survives_a_restart_with_what_was_dropped(fed: Fed, again: Callable[[Fed], None]) -> None:
    fed.put_all(b"1")
    _, offset = fed.read()
    fed.put_all(b"2", b"3")
    fed.note_point()
    fed.pass_time(HOUR_MS + 1)
    compacted(fed)
    again(fed)
    with pytest.raises(ChangesExpiredError):
        fed.read(offset)
    fed.put_all(b"4")
    assert fed.values() == [b"4"]


def test_a_feed_survives_a_crash_before_its_first_flush(fed: Fed) -> None:
    fed.put_all(b"1", b"2")
    fed.crash()
    fed.crash()
    assert fed.values() == [b"1", b"2"]


def test_points_are_few(fed: Fed) -> None:
    for number in range(300):
        fed.put_all(b"%d" % number)
        fed.pass_time(HOUR_MS // 100)
    (region,) = fed.regions
    assert len(region.describe_changes().changes.points) <= 34
    first, *_ = fed.values()
    assert isinstance(first, bytes)
    assert 185 <= int(first) <= 200  # 100 changes an hour, and some that need not be there any more


# ---- on and off


def test_without_the_property_nothing_is_retained(tmp_path: Path) -> None:
    fed = Fed(tmp_path, {})
    fed.put_all(b"1", b"2")
    compacted(fed)
    (file,) = [file for file in fed.file_facts() if file.cell_count]
    assert file.cell_count == 1
    (region,) = fed.regions
    assert b"changes" not in read_manifest(fed.files, region._parts.live_files.folder).manifest.encode()
    with pytest.raises(InvalidRequestError, match="the change feed of table 'fed' is off"):
        fed.read()
    fed.server.stop()


def test_a_feed_begins_when_it_is_switched_on_and_ends_when_it_is_switched_off(tmp_path: Path) -> None:
    fed = Fed(tmp_path, {})
    fed.put_all(b"1", b"2")
    fed.server.alter_table("fed", set_properties=FEED)
    offset = fed.offset
    fed.put_all(b"3", b"4")
    fed.crash()
    compacted(fed)
    assert fed.values() == fed.values(offset) == [b"3", b"4"]
    fed.server.alter_table("fed", drop_properties=list(FEED))
    compacted(fed)
    fed.server.alter_table("fed", set_properties=FEED)
    with pytest.raises(ChangesExpiredError):
        fed.read(offset)
    assert fed.values() == []
    fed.server.stop()


def test_fewer_hours_are_in_effect_at_once(fed: Fed) -> None:
    fed.put_all(b"1")
    fed.note_point()
    fed.pass_time(HOUR_MS // 2)
    fed.server.alter_table("fed", set_properties={"changes_retained_hours": "0.25"})
    fed.put_all(b"2")
    fed.pass_time(1)
    assert fed.values() == [b"2"]


@pytest.mark.parametrize("hours", ["-1", "8785", "1e3", "", "a day", "1.2.3", "99999999999"])
def test_impossible_hours_are_refused(fed: Fed, hours: str) -> None:
    with pytest.raises(InvalidRequestError, match="must be a number of hours from 0 to 8784"):
        fed.server.alter_table("fed", set_properties={"changes_retained_hours": hours})
    with pytest.raises(InvalidRequestError, match="must be a number of hours from 0 to 8784"):
        fed.server.create_table("other", [Family(0, b"f")], properties={"changes_retained_hours": hours})


# ---- offsets


@pytest.mark.parametrize("start", [{}, {999: 0}, {0: 0}])
def test_offsets_that_say_nothing_or_name_no_region_are_refused(fed: Fed, start: Mapping[int, int]) -> None:
    with pytest.raises((ChangesExpiredError, InvalidRequestError), match=r"says nothing about|no region ever had"):
        fed.read(start)


def test_an_offset_beyond_the_region_is_refused(fed: Fed) -> None:
    fed.put_all(b"1")
    (region,) = fed.regions
    with pytest.raises(InvalidRequestError, match=f"region {region.region_id} .* up to write number 2, and the newest"):
        fed.read({region.region_id: 2})


def test_an_offset_of_another_table_is_refused(fed: Fed) -> None:
    (other,) = fed.server.regions_of("t")
    with pytest.raises(InvalidRequestError, match="it is one of table 't'"):
        fed.read({**fed.offset, other.region_id: 0})


@pytest.mark.parametrize(
    "position", [b"short", Position(2, 0, b"row").encode()[:-1], Position(1, 0).encode(), Position(3, 0).encode()]
)
def test_a_position_that_no_call_has_returned_is_refused(fed: Fed, position: bytes) -> None:
    fed.put_all(b"1", b"2")
    (region,) = fed.regions
    with pytest.raises(InvalidRequestError, match="a position in"):
        fed.answer({region.region_id: 1}, position=position, until_region=region.region_id)


def test_an_unknown_table_is_refused(fed: Fed) -> None:
    fed.name = "nothing"
    with pytest.raises(TableNotFoundError):
        fed.read()


def test_the_offset_of_now_does_not_pass_an_unpublished_write(fed: Fed) -> None:
    fed.put_all(b"1")
    (region,) = fed.regions
    mvcc = region._parts.mvcc
    number = mvcc.begin()
    assert fed.offset == {region.region_id: number - 1}
    mvcc.complete(number)
    assert fed.offset == {region.region_id: number}


def test_unpublished_changes_are_not_read(fed: Fed) -> None:
    (region,) = fed.regions
    mvcc = region._parts.mvcc
    number = mvcc.begin()
    memstore = region.stores.all()[0].memstore
    grown = memstore.apply(b"r", [(b"q", -5, -number, 0, b"v")], mvcc.read_points_for_pruning)
    region._parts.shared.memory.add(grown)
    assert fed.values() == []
    mvcc.complete(number)
    assert fed.values() == [b"v"]


# ---- splits, merges, new regions


def test_daughters_go_on_from_the_number_of_their_parent(fed: Fed) -> None:
    for row in (b"a", b"m", b"z"):
        fed.put_all(b"1 of " + row, row=row)
    (parent,) = fed.regions
    fed.split(b"m")
    changes, offset = fed.read({parent.region_id: 1})
    assert [change["value"] for change in changes] == [b"1 of m", b"1 of z"]
    assert set(offset) == {region.region_id for region in fed.regions}
    for row in (b"a", b"z"):
        fed.put_all(b"2 of " + row, row=row)
    assert fed.values(offset) == [b"2 of a", b"2 of z"]
    assert fed.values({parent.region_id: 3}) == [b"2 of a", b"2 of z"]
    assert len(fed.values()) == 5


def test_a_parent_counts_for_the_daughter_that_was_not_read(fed: Fed) -> None:
    for row in (b"a", b"z"):
        fed.put_all(b"1", row=row)
    (parent,) = fed.regions
    fed.split(b"m")
    answer = fed.answer({parent.region_id: 0})
    assert table_of(answer).to_pylist()[0]["row"] == b"a"
    lower, _ = fed.regions
    assert answer.offset == {lower.region_id: 2, parent.region_id: 0}
    fed.merge()
    assert [change["row"] for change in fed.read(answer.offset)[0]] == [b"z"]


@pytest.mark.parametrize("bytes_max", [1, 1 << 20])
def test_a_merged_region_has_the_changes_of_both(fed: Fed, bytes_max: int) -> None:
    fed.split(b"m")
    for number in range(6):
        fed.put_all(b"left %d" % number, row=b"a")
    fed.put_all(b"right 0", row=b"z")
    left, right = fed.regions
    fed.merge()
    fed.put_all(b"both", row=b"z")
    numbers = {left.region_id: 4, right.region_id: 0}
    changes, offset = fed.read(numbers, bytes_max)
    assert sorted(str(change["value"]) for change in changes) == ["b'both'", "b'left 4'", "b'left 5'", "b'right 0'"]
    (merged,) = fed.regions
    assert list(offset) == [merged.region_id]
    assert fed.values(offset) == []


def test_a_merged_region_that_is_read_in_part_forgets_nothing(fed: Fed) -> None:
    fed.split(b"m")
    for number in range(6):
        fed.put_all(b"left %d" % number, row=b"a")
    fed.put_all(b"right 0", b"right 1", row=b"z")
    left, right = fed.regions
    fed.merge()
    seen: list[object] = []
    start: Mapping[int, int] = {left.region_id: 4, right.region_id: 0}
    while len(seen) < 4:
        answer = fed.answer(start, bytes_max=60)
        seen += [change["value"] for change in table_of(answer).to_pylist()]
        start = answer.offset
    assert seen == [b"right 0", b"right 1", b"left 4", b"left 5"]


def test_after_a_merge_the_horizon_of_each_region_counts(fed: Fed) -> None:
    fed.split(b"m")
    fed.put_all(b"1", b"2", row=b"z")
    left, right = fed.regions
    offset = {left.region_id: 0, right.region_id: 1}
    fed.note_point()
    fed.pass_time(HOUR_MS + 1)
    fed.put_all(b"left", row=b"a")
    compacted(fed)
    fed.merge()
    with pytest.raises(ChangesExpiredError, match=f"the offset has read region {right.region_id} up to 1"):
        fed.read(offset)
    assert fed.values() == [b"left"]
    assert fed.values({**offset, right.region_id: 2}) == [b"left"]


def test_an_ancestor_that_was_read_to_its_end_does_not_expire_with_its_neighbour(fed: Fed) -> None:
    fed.split(b"m")
    fed.put_all(b"left", row=b"a")
    left, right = fed.regions
    fed.put_all(b"1", b"2", b"3", row=b"z")
    fed.note_point()
    fed.pass_time(HOUR_MS // 2)
    fed.put_all(b"4", row=b"z")
    fed.merge()
    fed.pass_time(HOUR_MS // 2 + 1)
    (merged,) = fed.regions
    assert merged.describe_changes().changes.horizon == 3
    assert fed.values({left.region_id: 1, right.region_id: 3}) == [b"4"]
    with pytest.raises(ChangesExpiredError):
        fed.read({left.region_id: 0, right.region_id: 3})


def test_ancestors_are_forgotten_with_their_changes(fed: Fed) -> None:
    fed.put_all(b"1")
    (parent,) = fed.regions
    fed.split(b"m")
    fed.put_all(b"2", row=b"a")
    fed.put_all(b"2", row=b"z")
    assert fed.values({parent.region_id: 1}) == [b"2", b"2"]
    fed.note_point()
    fed.pass_time(HOUR_MS + 1)
    assert all(not region.describe_changes().changes.ancestors for region in fed.regions)
    with pytest.raises(ChangesExpiredError, match="says nothing about the rows"):
        fed.read({parent.region_id: 1})


@pytest.mark.parametrize("again", [Fed.restart, Fed.crash])
def test_ancestors_survive_a_restart(fed: Fed, again: Callable[[Fed], None]) -> None:
    fed.put_all(b"1", b"2")
    (parent,) = fed.regions
    fed.split(b"m")
    again(fed)
    assert fed.values({parent.region_id: 1}) == [b"2"]


def test_after_a_truncate_older_offsets_expire(fed: Fed) -> None:
    fed.put_all(b"1")
    _, offset = fed.read()
    fed.server.truncate_table("fed")
    fed.put_all(b"2")
    with pytest.raises(ChangesExpiredError, match="the table was truncated"):
        fed.read(offset)
    assert fed.values() == [b"2"]


def test_a_new_table_of_the_name_has_a_feed_of_its_own(fed: Fed) -> None:
    fed.put_all(b"1")
    _, offset = fed.read()
    fed.server.drop_table("fed")
    fed.server.create_table("fed", fed.server.table("t").families, properties=FEED)
    with pytest.raises(ChangesExpiredError):
        fed.read(offset)


@pytest.mark.parametrize("again", [in_memory, Fed.crash])
def test_the_feed_of_a_restored_table_begins_with_it(fed: Fed, again: Callable[[Fed], None]) -> None:
    fed.put_all(b"1", b"2")
    fed.server.create_named_snapshot("s", "fed")
    fed.server.restore_named_snapshot("s", "restored")
    fed.name = "restored"
    assert fed.get(b"r") == [b"2"]
    offset = fed.offset
    fed.put_all(b"3", b"4")
    again(fed)
    compacted(fed)
    assert fed.values() == fed.values(offset) == [b"3", b"4"]


# ---- windows


def test_a_write_number_is_never_cut(fed: Fed) -> None:
    for row in (b"a", b"b"):
        fed.change(row, *[Put(b"f", b"%d" % number, b"v" * 50, 5) for number in range(10)])
    fed.server.flush("fed")
    answer = fed.answer(bytes_max=500)
    assert [change["write_number"] for change in table_of(answer).to_pylist()] == [1] * 10
    assert list(answer.offset.values()) == [1]


@pytest.mark.parametrize("step", [in_memory, compacted])
def test_a_write_number_that_is_too_large_comes_in_parts(fed: Fed, step: Callable[[Fed], None]) -> None:
    fed.put_all(b"before")
    fed.change(b"r", *[Put(family, b"%d" % number, b"v" * 50, 5) for number in range(10) for family in (b"f", b"g")])
    fed.put_all(b"after")
    step(fed)
    changes, _ = fed.read(bytes_max=100)
    assert [change["write_number"] for change in changes] == [1, *[2] * 20, 3]
    assert len({(change["family"], change["qualifier"]) for change in changes[1:21]}) == 20


def parts_of_a_number(fed: Fed, bytes_max: int) -> list[list[dict[str, object]]]:
    """Returns the changes of the only region, answer by answer."""
    parts: list[list[dict[str, object]]] = []
    start: Mapping[int, int] | Start = Start.OLDEST
    until = region_id = 0
    position = b""
    for _ in range(100):
        answer = fed.answer(start, until=until, position=position, until_region=region_id, bytes_max=bytes_max)
        assert answer.read is not None
        parts.append(table_of(answer).to_pylist())
        if answer.read.is_done:
            return parts
        place = answer.read.window.position
        start, region_id, until = answer.offset, answer.region_id, answer.read.until
        position = place.encode() if place is not None else b""
    raise AssertionError("the feed does not come to its end")


@pytest.mark.parametrize("step", [in_memory, flushed, compacted])
def test_a_row_that_is_too_large_comes_in_parts_between_its_columns(fed: Fed, step: Callable[[Fed], None]) -> None:
    for_columns = [b"%02d" % number for number in range(30)]
    puts = [Put(b"g", name, b"v" * 5000, timestamp) for name in for_columns for timestamp in (1, 2)]
    fed.change(b"r", *puts, Put(b"f", b"q", b"v", 1))
    fed.change(b"s", Put(b"f", b"q", b"v", 1))
    step(fed)
    parts = parts_of_a_number(fed, bytes_max=20_000)
    cells = [cell for part in parts for cell in part]
    assert [cell["row"] for cell in cells] == [b"r"] * 61 + [b"s"]
    columns = [(cell["family"], cell["qualifier"]) for cell in cells[:61]]
    assert columns == [(b"f", b"q"), *[(b"g", name) for name in for_columns for _ in range(2)]]
    ends = [{cell["qualifier"] for cell in part if cell["family"] == b"g"} for part in parts]
    assert not any(one & other for place, one in enumerate(ends) for other in ends[place + 1 :]), "a column is cut"
    assert len(parts) > 3
    assert max(map(len, parts)) < 30


@pytest.mark.parametrize("step", [in_memory, flushed, compacted])
def test_rows_before_and_after_a_large_one_come_in_parts_too(fed: Fed, step: Callable[[Fed], None]) -> None:
    value = bytes(50_000)
    small = [(b"%s%02d" % (prefix, number), b"q", value) for prefix in (b"a", b"z") for number in range(30)]
    large = [(b"m", b"%02d" % number, value) for number in range(40)]
    written = sorted([*small, *large])
    done = threading.Event()
    fed.regions[0].bulk_put(
        bulk_batch(*[(row, b"f", qualifier, None, value) for row, qualifier, value in written]),
        None,
        WriteOptions(fed.clock.monotonic() + WAIT_S),
        lambda _: done.set(),
    )
    assert done.wait(WAIT_S)
    step(fed)
    parts = parts_of_a_number(fed, bytes_max=12_000)
    parts = parts_of_a_number(fed, bytes_max=200_000)
    assert sorted((cell["row"], cell["qualifier"], cell["value"]) for part in parts for cell in part) == written
    assert len({cell["write_number"] for part in parts for cell in part}) == 1
    assert len(parts) > 3


@pytest.mark.parametrize("step", [in_memory, flushed])
def test_a_column_of_many_versions_comes_whole(fed: Fed, step: Callable[[Fed], None]) -> None:
    versions = [Put(b"g", b"many", b"v" * 2000, timestamp) for timestamp in range(1, 301)]
    fed.change(b"r", Put(b"g", b"a", b"v" * 2000, 1), *versions, Put(b"g", b"z", b"v" * 2000, 1))
    step(fed)
    parts = parts_of_a_number(fed, bytes_max=4000)
    assert [sum(cell["qualifier"] == b"many" for cell in part) for part in parts].count(300) == 1
    assert sum(map(len, parts)) == 302


def test_parts_of_a_region_that_was_split_begin_again(fed: Fed) -> None:
    fed.change(b"r", *[Put(family, b"q", b"v" * 200, 5) for family in (b"f", b"g")])
    part = fed.answer(bytes_max=100)
    assert part.read is not None
    assert part.read.window.position is not None
    fed.split(b"m")
    again = fed.answer(
        part.offset,
        row=b"r",
        until=part.read.until,
        position=part.read.window.position.encode(),
        until_region=part.region_id,
        bytes_max=100,
    )
    assert again.region_id != part.region_id
    assert table_of(again).to_pylist()[0] == table_of(part).to_pylist()[0]


def test_a_feed_of_nothing_is_empty(fed: Fed) -> None:
    changes, offset = fed.read()
    assert changes == []
    assert offset == fed.offset
    assert fed.answer(Start.NEWEST).read is None
