"""A client's scan gives the same rows whether a point request opens it, or it goes by a call as to earlier servers."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import rowlock
from rowlock._core.scan_opening import continuation_request
from rowlock._transport import scan_opening
from rowlock.errors import InvalidArgumentError
from rowlock.rows import Cell
from rowlock_proto.v1 import region_pb2
from rowlock_regionserver.config import Config
from rowlock_regionserver.server import Server

from tests.drawn_cases import TRIES_ALL
from tests.seeds import drawn_seed
from tests.waiting import wait_until

ROW_COUNT = 1500
SCAN_COUNT = 12
MAPPING = "k STRING :key, a BINARY f:a, n BINARY g:n"
EARLIER, NOW = 5, 6


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server with a table of several files, newer versions and deletes in memory, and rows of all sizes."""
    draw = random.Random(drawn_seed())
    with (
        Server(
            tmp_path_factory.mktemp("data") / "folder",
            config=Config(block_cache_bytes=1 << 20, block_cache_bytes_max=0),
        ) as server,
        rowlock.connect(server.address) as db,
    ):
        db.create_table("t", {"f": rowlock.Family(versions=3), "g": rowlock.Family()})
        table = db.table("t")
        for part in range(4):
            with table.batch() as batch:
                for number in range(ROW_COUNT):
                    if part and draw.random() < 0.8:
                        continue
                    row = b"%05d" % number
                    if part and draw.random() < 0.2:
                        batch.delete(row, draw.choice([None, ["f"], ["g:n"]]))
                    else:
                        data = {b"f:" + name: draw.randbytes(draw.randrange(60)) for name in (b"a", b"b", b"c")}
                        if draw.random() < 0.01:
                            data[b"f:c"] = draw.randbytes(100_000)
                        batch.put(row, {**data, b"g:n": draw.randrange(1 << 31).to_bytes(4, "big")})
            if part < 3:
                db.flush("t")
        yield server


@pytest.fixture(params=["direct", "gRPC"])
def db(server: Server, request: pytest.FixtureRequest) -> Iterator[rowlock.Client]:
    with rowlock.connect(server.address) as db:
        db._servers._is_direct = request.param == "direct"
        yield db
        [connection] = db.statistics().connections
        assert (connection.direct is not None) == (request.param == "direct")


def random_arguments(draw: random.Random) -> dict[str, Any]:  # Any: of each argument
    """Returns the arguments of a scan, of few rows more often than of many."""

    def bounds() -> tuple[bytes, bytes]:
        start = draw.randrange(ROW_COUNT)
        return b"%05d" % start, b"%05d" % (start + draw.choice([0, 1, 5, 40, 300, ROW_COUNT]))

    arguments: dict[str, Any] = {"reverse": draw.random() < 0.4}
    if draw.random() < 0.3:
        arguments["ranges"] = [bounds() for _ in range(draw.randrange(1, 5))]
    elif draw.random() < 0.9:
        arguments["start"], arguments["stop"] = bounds()
    choices: dict[str, Callable[[], object]] = {
        "limit": lambda: draw.choice([0, 1, 2, 10, 50, 130, 1000, 2000]),
        "columns": lambda: draw.choice([["f:a"], ["f"], ["g:n", "f:absent"], ["f:c", "g"]]),
        "where": lambda: rowlock.row_key().matches(draw.choice(["7$", "^1", "^x"])),
        "versions": lambda: draw.randrange(1, 4),
        "keys_only": lambda: True,
        "batch_bytes": lambda: draw.choice([1, 1000, 100_000]),
    }
    for name, value in choices.items():
        if draw.random() < 0.25:
            arguments[name] = value()
    if arguments.get("batch_bytes") == 1 and not TRIES_ALL:  # a message for each row
        arguments["limit"] = min(arguments.get("limit") or 130, 130)
    return arguments


def test_random_scans_are_equal(db: rowlock.Client) -> None:
    draw = random.Random(drawn_seed())
    table = db.table("t")
    [address] = db._servers.protocols
    for _ in range(SCAN_COUNT):
        arguments = random_arguments(draw)
        found: list[tuple[object, ...]] = []
        for protocol in (EARLIER, NOW):
            db._servers.protocols[address] = protocol
            mapped = table.scan(**arguments).to_arrow(MAPPING) if "versions" not in arguments else None
            found.append(
                (
                    list(table.scan(**arguments)),
                    list(table.scan(**arguments).cells()),
                    table.scan(**arguments).to_arrow().to_pylist(),
                    [] if mapped is None else mapped.to_pylist(),
                    [table.scan(**arguments).count()],
                )
            )
        assert found[0] == found[1], arguments


def test_random_scans_of_asyncio_are_equal(server: Server) -> None:
    draw = random.Random(drawn_seed())

    async def read(table: rowlock.aio.Table[bytes], arguments: dict[str, Any]) -> list[Cell[bytes]]:
        return [cell async for cell in table.scan(**arguments).cells()]

    async def test() -> None:
        async with rowlock.aio.connect(server.address) as db:
            table = db.table("t")
            [address] = db._servers.protocols
            for _ in range(SCAN_COUNT // 2):
                arguments = random_arguments(draw)
                db._servers.protocols[address] = EARLIER
                before = await read(table, arguments)
                db._servers.protocols[address] = NOW
                assert await read(table, arguments) == before, arguments

    asyncio.run(test())


def test_only_scans_of_few_rows_are_opened_by_a_point_request(server: Server) -> None:
    with rowlock.connect(server.address) as db:
        table = db.table("t")

        def requests_of(read: Callable[[], object]) -> int:
            def count() -> int:
                return sum(each.direct_requests for each in db.statistics().connections)

            before = count()
            read()
            return count() - before

        table.row("00001")
        assert requests_of(lambda: list(table.scan("00001", "00005"))) == 1
        assert requests_of(lambda: next(table.scan().cells())) == 1
        assert requests_of(lambda: table.scan(limit=3).to_arrow()) == 1
        assert requests_of(lambda: table.scan("00001", "00005").to_arrow()) == 0
        assert requests_of(table.count) == 0
        # The first rows show how a scan began.
        many = [(b"%05d" % number, b"%05dx" % number) for number in range(ROW_COUNT)]
        assert requests_of(lambda: next(table.scan(ranges=many * 2).cells())) == 1
        assert requests_of(lambda: next(table.scan(ranges=[(row, row + b"x" * 50) for row, _ in many]).cells())) == 0


@pytest.mark.parametrize("strict", [False, True])
def test_a_scan_whose_held_scan_has_ended_resumes_or_fails(
    server: Server, monkeypatch: pytest.MonkeyPatch, strict: bool
) -> None:
    wrong: list[int] = []

    def ended(scan: region_pb2.ScanRequest, opened: region_pb2.OpenedScan) -> region_pb2.ScanRequest:
        request = continuation_request(scan, opened)
        if not wrong:
            wrong.append(request.held_scan)
            request.held_scan = 1
        return request

    with rowlock.connect(server.address) as db:
        whole = db.table("t").scan()
        expected = list(whole)
        assert not whole.resumed
        monkeypatch.setattr(scan_opening, "continuation_request", ended)
        scan = db.table("t").scan(strict=strict)
        if strict:
            with pytest.raises(rowlock.LeaseExpiredError):
                list(scan)
        else:
            assert list(scan) == expected
            assert scan.resumed
        assert wrong


def test_leaving_early_frees_the_read_point(server: Server) -> None:
    with rowlock.connect(server.address) as db:
        for _ in range(3):
            with db.table("t").scan() as scan:
                next(scan)
    wait_until(lambda: server.statistics().engine.scans.open_count == 0)


def test_a_server_that_opens_no_scans_any_more_is_scanned_by_a_call(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As one that a server of an earlier version has replaced."""

    def refused(*_: object) -> None:
        raise InvalidArgumentError("request 1 has no operation; set one of get, mutate")

    with rowlock.connect(server.address) as db:
        table = db.table("t")
        expected = list(table.scan())
        [address] = db._servers.protocols
        monkeypatch.setattr("rowlock.scan.open_scan", refused)
        assert list(table.scan()) == expected
        assert address not in db._servers.protocols
