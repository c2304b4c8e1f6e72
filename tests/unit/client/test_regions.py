"""The cache of regions."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from rowlock._core.regions import RegionCache
from rowlock.schema import Region

from tests.invariants import check


def region(number: int, start: bytes, stop: bytes) -> Region:
    return Region(number, "t", start, stop, "127.0.0.1:1")


def test_rows_are_found_in_half_open_ranges() -> None:
    cache = RegionCache()
    assert cache.find("t", b"a") is None
    left, right = region(1, b"", b"m"), region(2, b"m", b"")
    cache.store("t", [right, left])
    check(cache)
    assert [cache.find("t", row) for row in (b"", b"lzz", b"m", b"z")] == [left, left, right, right]
    assert cache.find("u", b"a") is None


def test_regions_that_overlap_newer_ones_are_removed() -> None:
    cache = RegionCache()
    cache.store("t", [region(1, b"", b"m"), region(2, b"m", b"")])
    cache.store("t", [region(3, b"g", b"m")])
    check(cache)
    assert cache.find("t", b"a") is None
    found = cache.find("t", b"h")
    assert found is not None
    assert found.region_id == 3
    assert cache.find("t", b"m") == region(2, b"m", b"")


bounds = st.lists(st.binary(max_size=2), min_size=1, max_size=8, unique=True).map(sorted)


@given(st.lists(bounds, max_size=6))
def test_of_regions_that_are_stored_in_turn_those_stay_that_no_later_one_overlaps(lookups: list[list[bytes]]) -> None:
    """Each lookup returns adjacent regions between its bounds; the last one is open if there is an odd number."""
    cache = RegionCache()
    stored: list[Region] = []
    for starts in lookups:
        stops = [*starts[1:], b""][: len(starts) - 1 + len(starts) % 2]
        found = [region(len(stored) + place, *each) for place, each in enumerate(zip(starts, stops, strict=False))]
        stored = [old for old in stored if not any(old.overlaps(new.start, new.stop) for new in found)] + found
        cache.store("t", reversed(found))
        check(cache)
        assert cache._tables["t"].regions == tuple(sorted(stored, key=lambda each: each.start))


def test_forgetting_touches_only_what_is_still_known() -> None:
    cache = RegionCache()
    old = region(1, b"", b"")
    cache.store("t", [old])
    cache.store("t", [region(2, b"", b"")])
    cache.forget(old)
    assert cache.find("t", b"a") == region(2, b"", b"")
    cache.forget(region(2, b"", b""))
    assert cache.find("t", b"a") is None
    cache.store("t", [old])
    cache.forget_table("t")
    assert cache.find("t", b"a") is None


def test_a_range_is_covered_only_without_gaps() -> None:
    cache = RegionCache()
    regions = (region(1, b"", b"g"), region(2, b"g", b"m"), region(3, b"m", b""))
    cache.store("t", regions)
    assert cache.cover("t", b"", b"") == regions
    assert cache.cover("t", b"h", b"m") == regions[1:2]
    assert cache.cover("t", b"h", b"m\0") == regions[1:]
    assert cache.cover("t", b"a", b"h") == regions[:2]
    cache.forget(regions[1])
    assert cache.cover("t", b"a", b"z") is None
    assert cache.cover("t", b"n", b"") == regions[2:]


@given(st.lists(st.tuples(st.sampled_from(["split", "merge", "look up", "forget"]), st.binary(min_size=1, max_size=1))))
def test_the_cache_never_has_regions_that_overlap_and_one_look_up_mends_it(steps: list[tuple[str, bytes]]) -> None:
    """Regions are split and merged behind the cache; a client forgets the region that a server refuses."""
    cache = RegionCache()
    actual = [region(1, b"", b"")]
    next_id = 2
    for what, row in steps:
        place = next(place for place, each in enumerate(actual) if each.holds(row))
        if what == "split" and actual[place].start != row:
            old = actual[place]
            actual[place : place + 1] = [region(next_id, old.start, row), region(next_id + 1, row, old.stop)]
            next_id += 2
        elif what == "merge" and place:
            left, right = actual[place - 1 : place + 1]
            actual[place - 1 : place + 1] = [region(next_id, left.start, right.stop)]
            next_id += 1
        elif what == "look up":
            cache.store("t", [actual[place]])
            assert cache.find("t", row) == actual[place]
        elif what == "forget":
            found = cache.find("t", row)
            if found is not None and found not in actual:
                cache.forget(found)
                assert cache.find("t", row) is None
        check(cache)
