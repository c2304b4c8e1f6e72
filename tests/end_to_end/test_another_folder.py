"""If another folder's server takes over an address, no request for the first folder has an effect in it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import grpc
import pyarrow as pa
import pytest
import rowlock
from google.protobuf.message import Message
from rowlock._core.catalog import create_request
from rowlock._transport import methods
from rowlock._transport.servers import Servers
from rowlock.client import Client
from rowlock_proto.v1 import catalog_pb2

from tests.end_to_end.server_command import ServerCommand

ROWS = pa.table({"k": ["r"], "v": ["new"]})
MAPPING = "k STRING :key, v STRING f:v"


class Places:
    """Two folders, each with its own table in region 1, whose servers use one address, one after the other."""

    def __init__(self, tmp_path: Path) -> None:
        self.address = f"unix:{tmp_path / 'socket'}"
        self.first, self.second = tmp_path / "first", tmp_path / "second"
        self._server = self._served(self.first)
        self._make("t")

    def _served(self, folder: Path) -> ServerCommand:
        server = ServerCommand("--data", folder, "--listen", self.address)
        server.ready()
        return server

    def _make(self, name: str) -> None:
        with rowlock.connect(self.address, timeout=60) as db:
            table = db.create_table(name, ["f"], durability="os")
            table.put("r", {"f:v": f"{name}'s"})
            assert db.regions(name)[0].region_id == 1

    def exchange(self) -> None:
        """Serves the second folder; its region 1 is table u."""
        self.end()
        self._server = self._served(self.second)
        self._make("u")

    def end(self) -> None:
        self._server.process.kill()
        self._server.process.communicate()

    def check(self) -> None:
        """Checks that the second folder is unchanged."""
        with rowlock.connect(self.address, timeout=60) as db:
            assert db.tables() == ["u"]
            assert list(db.table("u").scan()) == [(b"r", {b"f:v": b"u's"})]


@pytest.fixture
def places(tmp_path: Path) -> Iterator[Places]:
    places = Places(tmp_path)
    yield places
    places.end()


def is_refused_for_its_table(error: BaseException | None) -> bool:
    """Returns whether it is the error for a table that the second folder does not have.

    That is certain, but for a change that was sent before the client saw its connection end: the first folder's server
    might have made it. The call met the missing table when it was repeated.
    """
    if isinstance(error, rowlock.BulkError | rowlock.BatchError):
        return all(is_refused_for_its_table(each) for _, each in [*error.failed, *error.unknown])
    met_last = error.__cause__ if type(error) is rowlock.UnknownOutcomeError else error
    return type(met_last) is rowlock.TableNotFoundError


def batch_of(table: rowlock.Table[bytes]) -> None:
    with table.batch() as batch:
        batch.put("r", {"f:v": "new"})


CALLS: dict[str, Callable[[rowlock.Table[bytes]], object]] = {
    "put": lambda table: table.put("r", {"f:v": "new"}),
    "increment": lambda table: table.increment("r", "f:n"),
    "row": lambda table: table.row("r"),
    "scan": lambda table: list(table.scan()),
    "splits": lambda table: table.splits(),
    "put_arrow": lambda table: table.put_arrow(ROWS, MAPPING),
    "batch": batch_of,
}


@pytest.mark.parametrize("name", CALLS)
def test_a_client_that_was_connected_before_looks_its_regions_up_again(places: Places, name: str) -> None:
    with rowlock.connect(places.address, timeout=60) as db:
        table = db.table("t")
        assert table.row("r") == {b"f:v": b"t's"}
        places.exchange()
        with pytest.raises(rowlock.RowlockError, check=is_refused_for_its_table):
            CALLS[name](table)
        places.check()
        assert db.table("u").row("r") == {b"f:v": b"u's"}


async def scanned(table: rowlock.aio.Table[bytes]) -> None:
    async for _ in table.scan():
        pass


AIO_CALLS: dict[str, Callable[[rowlock.aio.Table[bytes]], Awaitable[object]]] = {
    "put": lambda table: table.put("r", {"f:v": "new"}),
    "row": lambda table: table.row("r"),
    "scan": scanned,
    "splits": lambda table: table.splits(),
    "put_arrow": lambda table: table.put_arrow(ROWS, MAPPING),
}


@pytest.mark.parametrize("name", AIO_CALLS)
def test_an_asyncio_client_looks_its_regions_up_again(places: Places, name: str) -> None:
    async def body() -> None:
        async with rowlock.aio.connect(places.address, timeout=60) as db:
            table = db.table("t")
            assert await table.row("r") == {b"f:v": b"t's"}
            await asyncio.to_thread(places.exchange)
            with pytest.raises(rowlock.RowlockError, check=is_refused_for_its_table):
                await AIO_CALLS[name](table)

    asyncio.run(body())
    places.check()


def test_a_client_that_has_not_seen_the_end_of_its_connection_looks_its_regions_up_again(places: Places) -> None:
    async def body() -> None:
        async with rowlock.aio.connect(places.address, timeout=60) as db:
            table = db.table("t")
            await table.put("r", {"f:v": "t's"})
            places.exchange()  # The event loop sees nothing meanwhile.
            with pytest.raises(rowlock.RowlockError, check=is_refused_for_its_table):
                await table.put("r", {"f:v": "new"})

    asyncio.run(body())
    places.check()


def opened_and_written(folder: Path) -> None:
    with rowlock.open(folder) as db:
        db.create_table("mine", ["f"]).put("r", {"f:v": "mine"})


def opened_and_written_by_asyncio(folder: Path) -> None:
    async def body() -> None:
        async with rowlock.aio.open(folder) as db:
            await (await db.create_table("mine", ["f"])).put("r", {"f:v": "mine"})

    asyncio.run(body())


@pytest.mark.parametrize("write", [opened_and_written, opened_and_written_by_asyncio])
@pytest.mark.parametrize("listen", ["127.0.0.1:0", "unix:socket"])
def test_an_address_file_that_a_killed_server_left_joins_no_other_folders_server(
    tmp_path: Path, listen: str, write: Callable[[Path], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another server has its port, or the path of its socket, by now."""
    monkeypatch.chdir(tmp_path)
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    embedded = ServerCommand("--data", ours, "--embedded", "--linger", "600")
    with embedded as server, rowlock.connect(server.ready()) as db:
        db.create_table("t", ["f"])
    assert (ours / "address").exists()
    with ServerCommand("--data", theirs, "--listen", listen) as other:
        address = other.ready()
        (ours / "address").write_text(f"{address}\n")
        write(ours)
        with rowlock.connect(address) as db:
            assert db.tables() == []
    with rowlock.open(ours) as db:
        assert db.tables() == ["mine", "t"]


def test_no_call_of_a_folders_client_is_made_by_another_folders_server(places: Places) -> None:
    """However its connection reached that server."""
    servers = Servers((places.address,), folder_id="0" * 32)
    with Client(servers, timeout_s=60):
        calls: list[tuple[methods.Method[Any, Any], Message]] = [
            (methods.LIST_TABLES, catalog_pb2.ListTablesRequest()),
            (methods.CREATE_TABLE, create_request("mine", ["f"], "os", ())),
            (methods.DROP_TABLE, catalog_pb2.DropTableRequest(name="t")),
        ]
        for method, request in calls:
            with pytest.raises(grpc.RpcError) as refused:
                servers.call_once(places.address, method, request, 60)
            error = servers.error_for(refused.value, places.address)
            assert type(error) is rowlock.AnotherFolderError
            assert "is for the data folder" in str(error)
    with rowlock.connect(places.address, timeout=60) as db:
        assert db.tables() == ["t"]


def test_an_embedded_server_of_the_version_before_is_joined(tmp_path: Path) -> None:
    """It listens on a port."""
    with ServerCommand("--data", tmp_path / "data", "--embedded", "--listen", "127.0.0.1:0") as server:
        address = server.ready()
        assert (tmp_path / "data" / "address").read_text() == f"{address}\n"
        with rowlock.open(tmp_path / "data") as db:
            assert db.server_info().address == address


def test_the_address_in_a_folder_that_others_may_write_to_is_not_used(tmp_path: Path) -> None:
    with ServerCommand("--data", tmp_path / "data", "--embedded", "--linger", "600") as server:
        server.ready()
        (tmp_path / "data").chmod(0o777)
        with pytest.raises(rowlock.EmbeddedServerError, match="could direct clients to a server of theirs"):
            rowlock.open(tmp_path / "data")
