"""The server of the raw baselines: the minimum of work that gRPC, Arrow and the file system allow.

    python -m bench.targets.echo_server FOLDER [ROW_COUNT [TYPED_ROW_COUNT]]

Prints its address and serves until it is killed. Messages are bytes, and only what an echo needs is parsed. `Scan`
returns ROW_COUNT rows of cells, and `ScanTyped` TYPED_ROW_COUNT typed rows, which are prepared at start. Who
connects to the Unix socket `FOLDER/scan` gets the messages of `Scan` there, each after its length. The socket
`FOLDER/bulk` takes messages of `Bulk`, each after its length, and answers each with a length of 0.
"""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from pathlib import Path

import grpc
import pyarrow as pa

from bench.targets import cell_tables, messages
from bench.targets.framed_echo_server import LENGTH
from bench.targets.typed_rows import typed_rows

SERVICE = "rowlock.bench.Echo"
# About the size of one message of a scan of rowlock's server.
SCAN_BATCH_BYTES = 1 << 20
# Writes wrap around in a preallocated file of this size, so that a sync writes data and no metadata.
FILE_BYTES = 64 << 20

Context = grpc.aio.ServicerContext[bytes, bytes]


class SyncedFile:
    """A preallocated file for synced writes, which wrap around at its end."""

    def __init__(self, path: Path, size: int = FILE_BYTES) -> None:
        """Creates the file with `size` bytes of disk."""
        self._size = size
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        # Written, not only allocated: the first write into allocated space changes metadata, which the sync must write.
        for offset in range(0, size, 1 << 20):
            os.pwrite(self._descriptor, b"\1" * min(1 << 20, size - offset), offset)
        os.fsync(self._descriptor)
        self._offset = 0

    def write(self, data: bytes | pa.Buffer) -> None:
        """Blocks until the data, at most `size` bytes, is on stable storage."""
        if self._offset + len(data) > self._size:
            self._offset = 0
        written = os.pwrite(self._descriptor, data, self._offset)
        if written != len(data):
            raise OSError(f"only {written} of {len(data)} bytes were written")
        os.fdatasync(self._descriptor)
        self._offset += len(data)


def sorted_cells(stream: bytes | pa.Buffer) -> pa.Table:
    """Returns the cells of an Arrow IPC stream by row, then qualifier."""
    cells = pa.ipc.open_stream(stream).read_all()
    return cells.sort_by([("row", "ascending"), ("qualifier", "ascending")])


class Echo:
    """The methods of the service. A stream ends with a message that is not bytes.

    A sync blocks the event loop: the baselines have one caller, which a thread would only slow down.
    """

    def __init__(self, path: Path, scanned: pa.Table, typed: pa.Table) -> None:
        """`path` is the file for synced writes."""
        value = bytes(messages.VALUE_BYTES)
        self._get_answer = messages.get_exchange(value).answer
        self._put_answer = messages.put_exchange(value).answer
        self._path = path
        self._scanned = scanned
        self._typed = typed

    async def unary(self, request: bytes, context: Context) -> bytes:
        return self._get_answer

    async def get(self, requests: object, context: Context) -> None:
        while isinstance(await context.read(), bytes):
            await context.write(self._get_answer)

    async def put(self, requests: object, context: Context) -> None:
        file = SyncedFile(self._path)
        while isinstance(request := await context.read(), bytes):
            file.write(request)
            await context.write(self._put_answer)

    async def bulk(self, requests: object, context: Context) -> None:
        """Answers each batch after it is synced and sorted; holds the sorted cells until the call ends."""
        file, batches = SyncedFile(self._path), []
        while isinstance(request := await context.read(), bytes):
            file.write(request)
            batches.append(sorted_cells(request))
            await context.write(b"")

    async def bulk_frames(self, connected: socket.socket) -> None:
        """Does what `bulk` does for a connection to a plain socket."""
        loop = asyncio.get_running_loop()
        file, batches = SyncedFile(self._path), []
        with connected:
            while length := await loop.sock_recv(connected, LENGTH.size):
                request = pa.allocate_buffer(*LENGTH.unpack(length))
                missing = memoryview(request)
                while missing:
                    missing = missing[await loop.sock_recv_into(connected, missing) :]
                file.write(request)
                batches.append(sorted_cells(request))
                await loop.sock_sendall(connected, LENGTH.pack(0))

    async def scan(self, request: bytes, context: Context) -> None:
        await _send(self._scanned, context)

    async def scan_typed(self, request: bytes, context: Context) -> None:
        await _send(self._typed, context)


async def _send(table: pa.Table, context: Context) -> None:
    for batch in cell_tables.slices(table, SCAN_BATCH_BYTES):
        await context.write(cell_tables.to_stream(batch))


async def send_frames(table: pa.Table, connected: socket.socket) -> None:
    """Sends the messages of a scan, each after its length in four bytes, and closes the connection."""
    loop = asyncio.get_running_loop()
    connected.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SCAN_BATCH_BYTES)
    with connected:
        for batch in cell_tables.slices(table, SCAN_BATCH_BYTES):
            message = cell_tables.to_stream(batch)
            await loop.sock_sendall(connected, LENGTH.pack(len(message)))
            await loop.sock_sendall(connected, message)


async def serve_frames(path: Path, serve_one: Callable[[socket.socket], Coroutine[None, None, None]]) -> None:
    """Serves a Unix socket, one connection after another."""
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(path))
        listening.listen()
        listening.setblocking(False)
        while True:
            connected, _ = await asyncio.get_running_loop().sock_accept(listening)
            await serve_one(connected)


def handlers(echo: Echo) -> grpc.GenericRpcHandler:
    """Returns the handlers of the service, without serializers: bytes in, bytes out."""
    stream: Callable[[Callable[[object, Context], Awaitable[None]]], grpc.RpcMethodHandler[bytes, bytes]]
    stream = grpc.stream_stream_rpc_method_handler
    return grpc.method_handlers_generic_handler(
        SERVICE,
        {
            "Unary": grpc.unary_unary_rpc_method_handler(echo.unary),
            "Get": stream(echo.get),
            "Put": stream(echo.put),
            "Bulk": stream(echo.bulk),
            "Scan": grpc.unary_stream_rpc_method_handler(echo.scan),
            "ScanTyped": grpc.unary_stream_rpc_method_handler(echo.scan_typed),
        },
    )


async def serve(folder: Path, row_count: int = 0, typed_row_count: int = 0) -> None:
    """Serves until the process is killed."""
    server = grpc.aio.server(options=[("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)])
    scanned = cell_tables.cells_of(cell_tables.wide_rows(row_count))
    echo = Echo(folder / "synced", scanned, typed_rows(typed_row_count))
    server.add_generic_rpc_handlers((handlers(echo),))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    frames = (
        serve_frames(folder / "scan", partial(send_frames, scanned)),
        serve_frames(folder / "bulk", echo.bulk_frames),
    )
    print(f"listening on 127.0.0.1:{port}", flush=True)
    await asyncio.gather(*frames, server.wait_for_termination())


if __name__ == "__main__":
    asyncio.run(serve(Path(sys.argv[1]), *map(int, sys.argv[2:4])))
