"""Answers by request id: saved, forgotten below the floor, and stored by a manifest."""

from __future__ import annotations

import gc
import itertools
import json
import tracemalloc

import pytest
from rowlock_regionserver.clock import Clock, ManualClock
from rowlock_regionserver.errors import InvalidRequestError, NotACounterError, UnknownOutcomeError
from rowlock_regionserver.operations import RequestId, RowResult
from rowlock_regionserver.region.idempotency.answer import ANSWER_BYTES, SavedAnswer
from rowlock_regionserver.region.idempotency.idempotency_memory import IdempotencyMemory
from rowlock_regionserver.region.idempotency.idempotency_table import IdempotencyTable
from rowlock_regionserver.region.idempotency.request_clients import CLIENT_BYTES
from rowlock_regionserver.region.manifest import Manifest

from tests.seeds import generator_of

CLIENT = b"c" * 16
ROW = b"row"
HOUR_MS = 3600 * 1000


def request_ids(
    clock: Clock | None = None, bytes_max: int = 1 << 30, per_client_max: int = 100, cell_bytes_max: int = 1 << 30
) -> IdempotencyTable:
    return IdempotencyTable(
        clock or ManualClock(), IdempotencyMemory(bytes_max), HOUR_MS, per_client_max, cell_bytes_max
    )


def kept_by(
    ids: IdempotencyTable,
    sequence: int,
    floor: int = 1,
    write_number: int = 9,
    value: bytes = b"",
    client: bytes = CLIENT,
) -> RowResult:

    cells = ((b"f", b"q", sequence, value),) if value else ()
    result = RowResult(results=cells, timestamp=sequence)
    ids.save(RequestId(client, sequence, floor), ROW, write_number, result)
    return result


def found(
    ids: IdempotencyTable, sequence: int, floor: int = 1, client: bytes = CLIENT, age_ms: int = 0
) -> RowResult | None:
    kept = ids.find(RequestId(client, sequence, floor, age_ms), ROW)
    if kept is None:
        return None
    assert isinstance(kept.outcome, RowResult)
    return kept.outcome


def all_kept(ids: IdempotencyTable, through: int = 100) -> list[SavedAnswer]:
    return list(itertools.chain.from_iterable(ids.saved(-1, through)))


def test_a_saved_answer_is_found_with_its_write_number() -> None:
    ids = request_ids()
    result = kept_by(ids, 5)
    assert ids.find(RequestId(CLIENT, 5, 1), ROW) == (9, result, False)
    assert found(ids, 6) is None
    assert found(ids, 5, client=b"d" * 16) is None


def test_an_id_below_the_floor_is_answered_with_unknown_outcome() -> None:
    ids = request_ids()
    kept_by(ids, 5, floor=5)
    with pytest.raises(UnknownOutcomeError):
        found(ids, 4)


def test_one_answer_is_saved_and_counted_for_a_client_that_makes_one_change_at_a_time() -> None:
    memory = IdempotencyMemory(1 << 30)
    ids = IdempotencyTable(ManualClock(), memory, HOUR_MS, 100)
    for sequence, row in enumerate((b"a", b"a longer row", b"b"), 1):
        ids.save(RequestId(CLIENT, sequence, sequence), row, 9, RowResult(timestamp=sequence))
        statistics = ids.statistics()
        assert (statistics.saved_answers, statistics.bytes_held) == (1, CLIENT_BYTES + ANSWER_BYTES + len(row))
        assert memory.bytes_held == ids.bytes_held
    assert found(ids, 4) is None
    assert ids.find(RequestId(CLIENT, 3, 3), b"b") == (9, RowResult(timestamp=3), False)
    with pytest.raises(UnknownOutcomeError, match="below its client's floor 3"):
        found(ids, 2)


def test_saved_answers_are_bounded_by_the_requests_in_flight() -> None:
    ids = request_ids()
    for sequence in range(1, 10_000):
        kept_by(ids, sequence, floor=max(1, sequence - 8))
        assert ids.statistics().saved_answers <= 100


def test_the_newest_answers_are_saved_for_a_client_that_never_raises_its_floor() -> None:
    ids = request_ids()
    for sequence in range(1, 1001):
        kept_by(ids, sequence, floor=0)
        assert ids.statistics().saved_answers <= 200
    assert [answer.sequence for answer in all_kept(ids)] == list(range(901, 1001))
    assert found(ids, 901) is not None
    with pytest.raises(UnknownOutcomeError):
        found(ids, 900)
    assert found(ids, 1001) is None
    assert {answer.floor for answer in all_kept(ids)} == {901}, "a manifest carries the floor"


def test_a_silent_client_is_forgotten_after_an_hour() -> None:
    clock = ManualClock()
    ids = request_ids(clock)
    kept_by(ids, 5)
    clock.advance(HOUR_MS - 1)
    assert len(all_kept(ids)) == 1
    clock.advance(2)
    assert all_kept(ids) == []
    assert ids.statistics().clients == 0
    assert ids.bytes_held == 0


def test_a_manifest_gets_only_answers_of_flushed_writes_and_restores_them() -> None:
    ids = request_ids()
    first = kept_by(ids, 5, write_number=9)
    kept_by(ids, 6, write_number=10)
    kept = all_kept(ids, 9)
    assert [answer.sequence for answer in kept] == [5]
    again = request_ids()
    again.restore(kept)
    assert again.find(RequestId(CLIENT, 5, 1), ROW) == (9, first, False)
    with pytest.raises(UnknownOutcomeError):
        found(again, 0)


def large_answers() -> IdempotencyTable:
    """Returns answers to requests 1 to 9 of one client; the bound allows the cells of three."""
    ids = request_ids(cell_bytes_max=3500)
    for sequence in range(1, 10):
        kept_by(ids, sequence, write_number=sequence, value=b"v" * 1000)
    return ids


def cut_ones(ids: IdempotencyTable) -> list[bool]:
    answers = [ids.find(RequestId(CLIENT, sequence, 1), ROW) for sequence in range(1, 10)]
    cut = []
    for answer in answers:
        assert answer is not None
        assert isinstance(answer.outcome, RowResult)
        assert answer.outcome.timestamp
        cut.append(answer.is_cut and not answer.outcome.results)
    return cut


def test_only_the_newest_large_answers_have_their_cells() -> None:
    ids = large_answers()
    assert cut_ones(ids) == [True] * 6 + [False] * 3
    assert 3000 < ids.statistics().cell_bytes <= 3500
    kept_by(ids, 10, value=b"v" * 9000)  # The newest stays, however large.
    assert found(ids, 10) == RowResult(True, (), ((b"f", b"q", 10, b"v" * 9000),), 10)
    assert cut_ones(ids) == [True] * 9


def test_a_manifest_gets_large_answers_as_they_are_saved_and_restores_them() -> None:
    kept = all_kept(large_answers(), 9)
    assert sum(len(cell[3]) for answer in kept for cell in answer.result.results) == 3000
    decoded = Manifest.decode(Manifest(1, 1, answers=tuple(reversed(kept))).encode())
    again = request_ids(cell_bytes_max=2500)
    again.restore(decoded.answers)
    assert cut_ones(again) == [True] * 7 + [False] * 2, "the newest keep theirs, whatever their order"


def test_cells_of_answers_are_forgotten_with_them() -> None:
    clock = ManualClock()
    ids = request_ids(clock)
    for client in (b"a" * 16, b"b" * 16):
        for sequence in range(1, 20):
            kept_by(ids, sequence, floor=sequence, value=b"v" * 1000, client=client)
    assert 2000 < ids.statistics().cell_bytes < 2500
    clock.advance(HOUR_MS + 1)
    assert all_kept(ids) == []
    assert ids.statistics().cell_bytes == 0
    assert ids.bytes_held == 0


def test_an_answer_of_an_earlier_version_is_that_of_a_change_or_of_a_bulk_batch() -> None:
    ids = request_ids()
    kept_by(ids, 5)
    manifest = json.loads(Manifest(1, 1, answers=tuple(all_kept(ids))).encode())
    for answer in manifest["answers"]:
        del answer["is_bulk"]
    again = request_ids()
    again.restore(Manifest.decode(json.dumps(manifest).encode()).answers)
    for is_bulk in (False, True):
        assert again.find(RequestId(CLIENT, 5, 1), ROW, is_bulk=is_bulk)
        with pytest.raises(InvalidRequestError):
            again.find(RequestId(CLIENT, 5, 1), b"another", is_bulk=is_bulk)
    assert [answer.is_bulk for answer in all_kept(again)] == [None]


# ---- the bound of all regions together


def test_what_is_counted_is_about_what_python_holds() -> None:
    for per_client, value in ((1, b""), (100, b""), (100, b"v" * 100)):
        ids = request_ids(per_client_max=1000)
        gc.collect()
        tracemalloc.start()
        for number in range(20_000 // per_client):
            for sequence in range(per_client):
                cells = ((b"f", b"column %d" % sequence, 1 << 40, value + b"%d" % number),) if value else ()
                result = RowResult(results=cells, timestamp=(1 << 40) + number)
                row = b"row %08d" % (number * per_client + sequence)
                ids.save(RequestId(b"%016d" % number, sequence, 0), row, (1 << 31) + sequence, result)
        gc.collect()
        held, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert 0.8 < ids.bytes_held / held < 1.3, (per_client, value, ids.bytes_held, held)


def test_one_shot_clients_take_no_more_than_the_bound_and_the_newest_are_known() -> None:
    """Beyond the bound the oldest are forgotten, and a change first sent before that is not applied again."""
    clock = ManualClock()
    ids = request_ids(clock, bytes_max=1 << 20)
    for number in range(20_000):
        kept_by(ids, 1, client=b"%016d" % number)
        assert ids.bytes_held <= 1 << 20
        clock.advance(100)
    statistics = ids.statistics()
    assert statistics.bytes_held == ids.bytes_held > 3 << 18
    assert 1000 < statistics.clients == statistics.saved_answers < 5000
    assert found(ids, 1, client=b"%016d" % 19_999)
    forgotten_ms = (20_000 - statistics.clients) * 100
    with pytest.raises(UnknownOutcomeError, match="may be forgotten"):
        found(ids, 1, client=b"%016d" % 0, age_ms=20_000 * 100 + 1)
    assert found(ids, 2, client=b"%016d" % 0, age_ms=20_000 * 100 - forgotten_ms - 31_000) is None, "it is too young"
    assert found(ids, 1, client=b"%016d" % 0) is None, "it is sent for the first time"


def test_the_region_that_holds_the_most_forgets_answers() -> None:
    clock, memory = ManualClock(), IdempotencyMemory(1 << 20)
    small, large = (IdempotencyTable(clock, memory, HOUR_MS, 1000) for _ in range(2))
    kept_by(small, 1)
    for number in range(5000):
        kept_by(large, 1, client=b"%016d" % number)
    assert memory.bytes_held == small.bytes_held + large.bytes_held <= 1 << 20
    assert found(small, 1)
    large.discard()
    assert memory.bytes_held == small.bytes_held < 1000


def test_a_single_client_beyond_the_bound_loses_its_oldest_answers() -> None:
    ids = request_ids(bytes_max=1 << 20, per_client_max=1 << 20)
    for sequence in range(1, 10_000):
        kept_by(ids, sequence)
        assert ids.bytes_held <= 1 << 20
    assert found(ids, 9999)
    with pytest.raises(UnknownOutcomeError, match="below"):
        found(ids, 1)


def test_large_cells_are_dropped_first_beyond_the_bound() -> None:
    ids = request_ids(bytes_max=1 << 20)
    for number in range(300):
        kept_by(ids, 1, client=b"%016d" % number, value=b"v" * 10_000)
    assert ids.bytes_held <= 1 << 20
    assert ids.statistics().clients == 300
    kept = ids.find(RequestId(b"%016d" % 0, 1, 1), ROW)
    assert kept is not None
    assert kept.is_cut


def test_a_single_answer_beyond_the_bound_is_known_without_its_cells() -> None:
    ids = request_ids(bytes_max=1 << 16)
    kept_by(ids, 1, value=b"v" * (1 << 17))
    assert ids.bytes_held < 1 << 16
    kept = ids.find(RequestId(CLIENT, 1, 1), ROW)
    assert kept is not None
    assert kept.is_cut


def test_active_clients_are_not_forgotten() -> None:
    clock = ManualClock()
    ids = request_ids(clock, bytes_max=1 << 16)
    for number in range(2000):
        kept_by(ids, number + 1, floor=number, client=b"a" * 16)
        kept_by(ids, 1, client=b"%016d" % number)
        clock.advance(1)
        assert found(ids, number + 1, floor=number, client=b"a" * 16)
    clock.advance(HOUR_MS - 100)
    kept_by(ids, 2001, floor=2000, client=b"a" * 16)
    clock.advance(101)
    assert {answer.client for answer in all_kept(ids)} == {b"a" * 16}


def test_refusals_are_counted_and_are_not_for_a_manifest() -> None:
    ids = request_ids()
    ids.save(RequestId(CLIENT, 1, 1), ROW, 9, NotACounterError("x" * 1000))
    ids.save(RequestId(CLIENT, 2, 1), ROW, 9, RowResult(condition_met=False))
    ids.save(RequestId(CLIENT, 3, 1), None, 0, NotACounterError("y"), is_bulk=True)
    assert ids.bytes_held > 1000
    assert all_kept(ids) == []
    kept = ids.find(RequestId(CLIENT, 1, 1), ROW)
    assert kept is not None
    assert isinstance(kept.outcome, NotACounterError)


def test_answers_that_a_client_waits_for_are_saved_in_any_order_of_sequences_and_floors() -> None:
    for seed in range(50):
        draw = generator_of(seed)
        ids = request_ids(per_client_max=10_000)
        known: dict[int, int] = {}
        sequences = draw.sample(range(1, 400), 300)
        top = 0
        for place, sequence in enumerate(sequences):
            floor = draw.choice([0, 0, min(sequences[place:])])
            if sequence < top:
                continue
            kept_by(ids, sequence, floor)
            known[sequence] = sequence
            top = max(top, floor)
        for sequence in range(1, 400):
            if sequence < top:
                with pytest.raises(UnknownOutcomeError):
                    found(ids, sequence)
            else:
                result = found(ids, sequence)
                assert (result.timestamp if result else None) == known.get(sequence), f"seed {seed}"
        count = sum(sequence >= top for sequence in known)
        assert ids.statistics().saved_answers == count
        assert ids.bytes_held == CLIENT_BYTES + count * (ANSWER_BYTES + len(ROW))
