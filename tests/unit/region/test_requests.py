"""Request ids: kept, forgotten below the floor, and carried by a manifest."""

from __future__ import annotations

import pytest
from rowlock_regionserver.clock import ManualClock
from rowlock_regionserver.errors import UnknownOutcomeError
from rowlock_regionserver.operations import RequestId, RowResult
from rowlock_regionserver.region.manifest import Manifest
from rowlock_regionserver.region.requests import RequestIds

CLIENT = b"c" * 16
HOUR_MS = 3600 * 1000


def kept_by(
    ids: RequestIds, sequence: int, floor: int = 1, write_number: int = 9, value: bytes = b"", client: bytes = CLIENT
) -> RowResult:
    cells = ((b"f", b"q", sequence, value),) if value else ()
    result = RowResult(results=cells, timestamp=sequence)
    ids.keep(RequestId(client, sequence, floor), b"row", write_number, result, ids._clock.now_ms())
    return result


def test_a_kept_answer_is_found_with_its_write_number() -> None:
    ids = RequestIds(ManualClock(), HOUR_MS, 100)
    result = kept_by(ids, 5)
    assert ids.find(RequestId(CLIENT, 5, 1)) == (9, result, False)
    assert ids.find(RequestId(CLIENT, 6, 1)) is None
    assert ids.find(RequestId(b"d" * 16, 5, 1)) is None


def test_an_id_below_the_floor_is_answered_with_unknown_outcome() -> None:
    ids = RequestIds(ManualClock(), HOUR_MS, 100)
    kept_by(ids, 5, floor=5)
    with pytest.raises(UnknownOutcomeError):
        ids.find(RequestId(CLIENT, 4, 1))


def test_what_is_kept_is_bounded_by_what_is_in_flight() -> None:
    ids = RequestIds(ManualClock(), HOUR_MS, 100)
    for sequence in range(1, 10_000):
        kept_by(ids, sequence, floor=max(1, sequence - 8))
        assert ids.statistics().kept_answers <= 100


def test_of_a_client_that_never_raises_its_floor_the_newest_answers_are_kept() -> None:
    ids = RequestIds(ManualClock(), HOUR_MS, 100)
    for sequence in range(1, 1001):
        kept_by(ids, sequence, floor=0)
        assert ids.statistics().kept_answers <= 200
    assert [answer.sequence for answer in ids.kept(9)] == list(range(901, 1001))
    assert ids.find(RequestId(CLIENT, 901, 0)) is not None
    with pytest.raises(UnknownOutcomeError):
        ids.find(RequestId(CLIENT, 900, 0))
    assert ids.find(RequestId(CLIENT, 1001, 0)) is None
    assert {answer.floor for answer in ids.kept(9)} == {901}, "a manifest carries the floor"


def test_a_silent_client_is_forgotten_after_an_hour() -> None:
    clock = ManualClock()
    ids = RequestIds(clock, HOUR_MS, 100)
    kept_by(ids, 5)
    clock.advance(HOUR_MS - 1)
    assert len(ids.kept(100)) == 1
    clock.advance(2)
    assert ids.kept(100) == []
    assert ids.statistics().clients == 0


def test_a_manifest_gets_only_answers_of_flushed_writes_and_gives_them_back() -> None:
    ids = RequestIds(ManualClock(), HOUR_MS, 100)
    first = kept_by(ids, 5, write_number=9)
    kept_by(ids, 6, write_number=10)
    kept = ids.kept(9)
    assert [answer.sequence for answer in kept] == [5]
    again = RequestIds(ManualClock(), HOUR_MS, 100)
    again.restore(kept)
    assert again.find(RequestId(CLIENT, 5, 1)) == (9, first, False)
    with pytest.raises(UnknownOutcomeError):
        again.find(RequestId(CLIENT, 0, 0))


def large_answers() -> RequestIds:
    """Of requests 1 to 9 of one client; three of them have room for their cells."""
    ids = RequestIds(ManualClock(), HOUR_MS, 100, cell_bytes_max=3500)
    for sequence in range(1, 10):
        kept_by(ids, sequence, write_number=sequence, value=b"v" * 1000)
    return ids


def cut_ones(ids: RequestIds) -> list[bool]:
    found = [ids.find(RequestId(CLIENT, sequence, 1)) for sequence in range(1, 10)]
    assert all(answer is not None and answer.result.timestamp for answer in found)
    return [answer.is_cut and not answer.result.results for answer in found if answer is not None]


def test_of_large_answers_the_newest_keep_their_cells_and_the_others_tell_the_rest() -> None:
    ids = large_answers()
    assert cut_ones(ids) == [True] * 6 + [False] * 3
    assert 3000 < ids.statistics().cell_bytes <= 3500
    kept_by(ids, 10, value=b"v" * 9000)  # The newest stays, however large.
    assert ids.find(RequestId(CLIENT, 10, 1)) == (9, RowResult(True, (), ((b"f", b"q", 10, b"v" * 9000),), 10), False)
    assert cut_ones(ids) == [True] * 9


def test_a_manifest_gets_no_more_of_large_answers_than_is_kept_and_gives_it_back() -> None:
    kept = large_answers().kept(9)
    assert sum(len(cell[3]) for answer in kept for cell in answer.result.results) == 3000
    decoded = Manifest.decode(Manifest(1, 1, answers=tuple(reversed(kept))).encode())
    again = RequestIds(ManualClock(), HOUR_MS, 100, cell_bytes_max=2500)
    again.restore(decoded.answers)
    assert cut_ones(again) == [True] * 7 + [False] * 2, "the newest keep theirs, whatever their order"


def test_cells_of_answers_are_forgotten_with_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rowlock_regionserver.region.requests._SWEPT_BYTES_MIN", 2500)
    clock = ManualClock()
    ids = RequestIds(clock, HOUR_MS, 100)
    for client in (b"a" * 16, b"b" * 16):
        for sequence in range(1, 20):
            kept_by(ids, sequence, floor=sequence, value=b"v" * 1000, client=client)
    assert ids.statistics().cell_bytes < 13_000, "what is below a floor goes by its bytes, not by its count only"
    ids.kept(100)
    assert 2000 < ids.statistics().cell_bytes < 2500
    clock.advance(HOUR_MS + 1)
    assert ids.kept(100) == []
    assert ids.statistics().cell_bytes == 0
