"""The rows and operations of YCSB are those of the benchmark, whoever the client is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from random import Random

import pytest

from bench.histogram import Histogram
from bench.ycsb.jobs import Job, Outcome, job_of, outcome_of, sum_of, words_of
from bench.ycsb.operations import BATCH_ROWS, OPERATIONS, Caller, WrongAnswerError, load
from bench.ycsb.rows import COLUMNS, FIELD_BYTES, Zipfian, fnv64, row_key, row_values, zeta
from bench.ycsb.worker import PreparedJob, measured
from tests.seeds import generator_of

_ROWS = 200


class FakeClient:
    """A RowClient in memory, which counts its calls."""

    def __init__(self) -> None:
        self.rows: dict[bytes, dict[bytes, bytes]] = {}
        self.counter = 0
        self.calls: Counter[str] = Counter()
        self.fails = False

    def get(self, row: bytes) -> int:
        self.calls["get"] += 1
        return len(self.rows.get(row, {}))

    def put(self, row: bytes, values: Mapping[bytes, bytes]) -> None:
        if self.fails:
            raise OSError("the disk is full")
        self.calls[f"put of {len(values)}"] += 1
        self.rows.setdefault(row, {}).update(values)

    def put_batch(self, rows: Iterable[tuple[bytes, Mapping[bytes, bytes]]]) -> None:
        self.calls["batch"] += 1
        for row, values in rows:
            self.rows.setdefault(row, {}).update(values)

    def increment(self, row: bytes, column: bytes) -> None:
        self.counter += 1

    def scan(self, start: bytes, count: int) -> int:
        self.calls["scan"] += 1
        return min(count, sum(1 for row in self.rows if row >= start))

    def full_scan(self) -> int:
        return len(self.rows)

    def full_scan_arrow(self) -> int:
        return len(self.rows)

    def close(self) -> None:
        self.calls["close"] += 1


@pytest.fixture
def client() -> FakeClient:
    client = FakeClient()
    load(client, 0, _ROWS, seed=1)
    client.calls.clear()
    return client


def _caller(client: FakeClient, seed: int = 7) -> Caller:
    return Caller(client, _ROWS, zeta(_ROWS), seed)


def test_keys_are_those_of_ycsb() -> None:
    # The keys of YCSB 0.17 for its first rows.
    assert [row_key(number) for number in (0, 1)] == [b"user6284781860667377211", b"user8517097267634966620"]
    assert len({row_key(number) for number in range(1000)}) == 1000
    assert all(0 <= fnv64(number) < 1 << 63 for number in range(1000))


def test_a_row_has_ten_values_of_a_hundred_bytes() -> None:
    values = row_values(Random(1))
    assert tuple(values) == COLUMNS
    assert {len(value) for value in values.values()} == {FIELD_BYTES}


def test_zipfian_ranks_have_their_share() -> None:
    count = 1000
    ranks = Zipfian(generator_of("zipfian"), count, zeta(count))
    found = Counter(ranks.rank() for _ in range(20_000))
    assert all(0 <= rank < count for rank in found)
    expected = 1 / zeta(count)
    assert found[0] / 20_000 == pytest.approx(expected, rel=0.15)
    assert found[1] / 20_000 == pytest.approx(expected * 0.5**0.99, rel=0.2)
    with pytest.raises(ValueError, match="at least two ranks"):
        Zipfian(Random(1), 1, 1.0)


def test_scrambled_rows_are_as_skewed_and_anywhere() -> None:
    rows = Zipfian(generator_of("scrambled"), 1000, zeta(1000))
    found = Counter(rows.scrambled() for _ in range(5000))
    [(most, _)] = found.most_common(1)
    assert most == fnv64(0) % 1000


def test_loading_puts_every_row_whole(client: FakeClient) -> None:
    assert set(client.rows) == {row_key(number) for number in range(_ROWS)}
    assert all(len(values) == len(COLUMNS) for values in client.rows.values())


@pytest.mark.parametrize("name", OPERATIONS)
def test_every_operation_runs_and_counts_rows(client: FakeClient, name: str) -> None:
    caller = _caller(client)
    counted = [OPERATIONS[name](caller) for _ in range(50)]
    assert all(0 <= rows <= BATCH_ROWS for rows in counted)
    assert sum(counted) > 0
    assert {"put_batch": BATCH_ROWS, "full_scan": _ROWS, "get": 1}.get(name, counted[0]) == counted[0]


@pytest.mark.parametrize(
    ("name", "reads", "writes"),
    [("half", 0.5, 0.5), ("ycsb_b", 0.95, 0.05), ("ycsb_c", 1, 0), ("ycsb_d", 0.95, 0.05), ("ycsb_f", 1, 0.5)],
)
def test_each_workload_has_its_share_of_reads(client: FakeClient, name: str, reads: float, writes: float) -> None:
    caller = _caller(client)
    for _ in range(2000):
        OPERATIONS[name](caller)
    written = "put of 10" if name == "ycsb_d" else "put of 1"
    assert client.calls["get"] / 2000 == pytest.approx(reads, abs=0.05)
    assert client.calls[written] / 2000 == pytest.approx(writes, abs=0.05)
    assert set(client.calls) <= {"get", written}


def test_two_callers_insert_different_rows(client: FakeClient) -> None:
    for seed in (1, 2):
        caller = _caller(client, seed)
        while client.calls["put of 10"] < 5 * seed:
            caller.ycsb_d()
    assert len(client.rows) == _ROWS + 10


def test_a_row_that_is_not_whole_and_a_scan_that_lost_rows_are_errors(client: FakeClient) -> None:
    for values in client.rows.values():
        del values[COLUMNS[3]]
    with pytest.raises(WrongAnswerError, match="has 9 columns, not 10"):
        _caller(client).get()
    del client.rows[row_key(0)]
    with pytest.raises(WrongAnswerError, match="found 199 rows of at least 200"):
        _caller(client).full_scan()


def test_jobs_and_outcomes_survive_the_way_to_another_process() -> None:
    job = Job("get", threads=8, warm_s=0.5, measured_s=3.0, seed=11)
    name, words = words_of(job.command())
    assert (name, job_of(words)) == ("prepare", job)
    outcome = Outcome(3, 30, 1.5, Histogram.of([1, 500, 1_000_000]))
    found = outcome_of(outcome.answer())
    assert (found.operations, found.rows, found.seconds) == (3, 30, 1.5)
    assert found.latencies.counts == outcome.latencies.counts
    assert found.rows_a_second == 20
    with pytest.raises(ValueError, match="not an integer"):
        outcome_of({**outcome.answer(), "rows": "many"})


def test_callers_that_worked_together_took_as_long_as_the_slowest() -> None:
    both = sum_of([Outcome(3, 30, 1.0, Histogram.of([1])), Outcome(5, 50, 2.0, Histogram.of([2]))])
    assert (both.operations, both.rows, both.seconds, both.latencies.count) == (8, 80, 2.0, 2)


def test_an_operation_is_measured_at_least_once() -> None:
    outcome = measured(lambda: 7, seconds=0)
    assert (outcome.operations, outcome.rows, outcome.latencies.count) == (1, 7, 1)


def test_a_job_makes_its_operations_only_between_the_commands(client: FakeClient) -> None:
    clients = [FakeClient(), client]
    clients[0].rows = client.rows
    prepared = PreparedJob(Job("put", 2, warm_s=0.0, measured_s=0.01, seed=1), clients, _ROWS, zeta(_ROWS))
    assert sum(each.calls["put of 10"] for each in clients) == 0
    outcome = prepared.measure()
    assert outcome.operations == outcome.latencies.count == sum(each.calls["put of 10"] for each in clients) >= 2
    assert [each.calls["close"] for each in clients] == [1, 1]


@pytest.mark.parametrize("warm_s", [0.0, 0.01])
def test_a_job_raises_what_a_caller_raised(client: FakeClient, warm_s: float) -> None:
    client.fails = True
    job = Job("put", 2, warm_s=warm_s, measured_s=0.01, seed=1)
    with pytest.raises(OSError, match="the disk is full"):
        PreparedJob(job, [client, FakeClient()], _ROWS, zeta(_ROWS)).measure()
