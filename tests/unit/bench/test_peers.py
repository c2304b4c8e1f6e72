"""The peers' protocols are theirs, absent peers are skipped, and a wrong answer stops the measurement."""

from __future__ import annotations

import io
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from bench.measure import Measurement, Spread
from bench.peers import run
from bench.peers.etcd import EtcdStore, field, fields_of
from bench.peers.peer import Durability, Peer, PeerStore
from bench.peers.redis import read_answer, request
from bench.programs import ProgramFailedError, free_ports, listens, running_program
from bench.targets.messages import row_key


class FakeStore:
    """A PeerStore in memory."""

    def __init__(self) -> None:
        self.values: dict[bytes, bytes] = {}
        self.counters: dict[bytes, int] = {}

    def get(self, row: bytes) -> bytes | None:
        return self.values.get(row)

    def put(self, row: bytes, value: bytes) -> None:
        self.values[row] = value

    def increment(self, row: bytes) -> int:
        self.counters[row] = self.counters.get(row, 0) + 1
        return self.counters[row]

    def compare_and_swap(self, row: bytes, expected: bytes, value: bytes) -> bool:
        if self.values.get(row) != expected:
            return False
        self.values[row] = value
        return True


def test_a_command_of_redis_is_an_array_of_strings() -> None:
    assert request(b"SET", b"a", b"1\r\n2") == b"*3\r\n$3\r\nSET\r\n$1\r\na\r\n$4\r\n1\r\n2\r\n"


def test_answers_of_redis_are_read_one_after_the_other() -> None:
    answers = io.BytesIO(b"+OK\r\n:17\r\n$4\r\na\r\nb\r\n$-1\r\n$0\r\n\r\n")
    assert [read_answer(answers) for _ in range(5)] == [b"OK", 17, b"a\r\nb", None, b""]
    with pytest.raises(ProgramFailedError, match="WRONGTYPE"):
        read_answer(io.BytesIO(b"-WRONGTYPE of key\r\n"))
    with pytest.raises(ProgramFailedError, match="answered ''"):
        read_answer(io.BytesIO(b""))


@pytest.mark.parametrize("value", [0, 1, 127, 128, 300, 1 << 40])
def test_fields_of_messages_are_read_as_written(value: int) -> None:
    message = field(1, b"key") + field(2, value) + field(99, b"x" * 200)
    assert fields_of(message) == {1: b"key", 2: value, 99: b"x" * 200}
    # The example of the documentation of Protocol Buffers.
    assert field(1, 150) == b"\x08\x96\x01"
    with pytest.raises(ValueError, match="kind 5"):
        fields_of(b"\x0d1234")


def test_a_swap_of_etcd_compares_the_value_in_one_transaction() -> None:
    sent: list[bytes] = []

    class Channel:
        def unary_unary(self, method: str) -> object:
            def answer(message: bytes) -> bytes:
                sent.append(message)
                return field(2, 1)

            return answer

    store = EtcdStore(Channel())  # type: ignore[arg-type]
    assert store.compare_and_swap(b"k", b"old", b"new")
    transaction = fields_of(sent[0])
    compare, success = transaction[1], transaction[2]
    assert isinstance(compare, bytes)
    assert isinstance(success, bytes)
    assert fields_of(compare) == {2: 3, 3: b"k", 7: b"old"}
    put = fields_of(success)[2]
    assert isinstance(put, bytes)
    assert fields_of(put) == {1: b"k", 2: b"new"}


@pytest.mark.parametrize("call", ["get", "put", "increment", "compare_and_swap"])
def test_every_call_is_made_on_rows_that_are_there(call: str) -> None:
    store = FakeStore()
    for number in range(3):
        store.put(row_key(number), b"0")
    operation = run.operation(store, call, 3)
    for _ in range(7):
        operation()
    assert store.counters == ({b"counter": 7} if call == "increment" else {})


def test_a_lost_row_and_a_failed_swap_stop_the_measurement() -> None:
    store = FakeStore()
    with pytest.raises(AssertionError, match="a row is absent"):
        run.operation(store, "get", 3)()
    swap = run.operation(store, "compare_and_swap", 3)
    swap()
    store.put(b"swapped", b"other")
    with pytest.raises(AssertionError, match="a swap failed"):
        swap()
    with pytest.raises(ValueError, match="no call scan"):
        run.operation(store, "scan", 3)


def test_a_peer_that_is_not_installed_is_skipped_with_a_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    @contextmanager
    def never(folder: Path, durability: Durability) -> Iterator[PeerStore]:
        raise AssertionError("it was started")
        yield

    monkeypatch.setattr(run, "PEERS", (Peer("Other", "no-such-program", {"os": ("get",)}, never),))
    assert run.main(["--quick"]) == 0
    assert "Other: skipped, because there is no no-such-program" in capsys.readouterr().out


def test_a_program_is_found_in_its_usual_folders(tmp_path: Path) -> None:
    (tmp_path / "other-program").touch()
    peer = run.PEERS[0]
    found = Peer("Other", "other-program", peer.work, peer.running, (tmp_path / "empty", tmp_path)).find()
    assert found == str(tmp_path / "other-program")


def test_a_program_that_ends_is_an_error_with_its_log(tmp_path: Path) -> None:
    command = ["/bin/sh", "-c", "echo no memory >&2; exit 1"]
    with (
        pytest.raises(ProgramFailedError, match="no memory"),
        running_program(command, tmp_path / "log", lambda: False),
    ):
        pytest.fail("it did not start")


def test_a_program_runs_from_when_it_is_ready_until_the_end(tmp_path: Path) -> None:
    ready = tmp_path / "ready"
    with running_program(["/bin/sh", "-c", f": > {ready}; sleep 600"], tmp_path / "log", ready.exists) as process:
        assert ready.exists()
        assert psutil.pid_exists(process)
    assert not psutil.pid_exists(process)


def test_ports_are_free_and_different() -> None:
    ports = free_ports(5)
    assert len(set(ports)) == 5
    with socket.create_server(("127.0.0.1", 0)) as server:
        assert listens(server.getsockname()[1])
    assert not any(listens(port) for port in ports)


def test_the_table_has_both_rates() -> None:
    spreads = {"Redis": Spread.of([2000.0]), "rowlock": Spread.of([500.0])}
    row = run.Row("Redis", "get", "os", Measurement(Spread.of([0.25]), spreads))
    assert "| Redis | get | `os` | 2,000 | 500 | 0.25 (0.25 to 0.25) |" in run.markdown([row], {"cores": "2"})


def test_wrong_options_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    for words in (["Oracle"], ["--rounds", "0"]):
        with pytest.raises(SystemExit):
            run.arguments(words)
    assert "unknown peer: Oracle" in capsys.readouterr().err
