"""The region cache against a map of every row."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from rowlock._core.regions import RegionCache
from rowlock.schema import Region

from tests.invariants import check

ROWS = [bytes([letter]) for letter in b"abcdefgh"]
BOUNDS = [b"", *ROWS[1:]]

ranges = st.tuples(st.sampled_from(BOUNDS), st.sampled_from([*ROWS[1:], b""])).filter(
    lambda bounds: not bounds[1] or bounds[0] < bounds[1]
)


@settings(deadline=None, max_examples=200)
@given(st.lists(st.tuples(st.booleans(), ranges), max_size=20))
def test_a_row_is_in_the_region_cached_last_or_in_none(steps: list[tuple[bool, tuple[bytes, bytes]]]) -> None:
    cache = RegionCache()
    expected: dict[bytes, int | None] = dict.fromkeys(ROWS)
    told: list[Region] = []
    for number, (is_stored, (start, stop)) in enumerate(steps):
        if is_stored or not told:
            region = Region(number, "t", start, stop, "s")
            overlapping = {
                other.region_id
                for other in told
                if (not stop or other.start < stop) and (not other.stop or start < other.stop)
            }
            expected = {row: None if at in overlapping else at for row, at in expected.items()}
            expected.update({row: number for row in ROWS if region.holds(row)})
            told.append(region)
            cache.store("t", [region])
        else:
            forgotten = told[number % len(told)]
            expected = {row: None if at == forgotten.region_id else at for row, at in expected.items()}
            cache.forget(forgotten)
        check(cache)
        for row, at in expected.items():
            found = cache.find("t", row)
            assert (None if found is None else found.region_id) == at, row
        covered = cache.cover("t", b"", b"")
        assert (covered is None) >= any(at is None for at in expected.values())
