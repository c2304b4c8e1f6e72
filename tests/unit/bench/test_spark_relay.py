"""The relay passes everything on in both directions, and counts what the server sends."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator

import pytest

from bench.spark.relay import Relay


@pytest.fixture
def server() -> Iterator[str]:
    """Answers whatever a client has sent, twice over, when the client is done."""
    listening = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        connection, _ = listening.accept()
        with connection:
            said = b""
            while chunk := connection.recv(65536):
                said += chunk
            connection.sendall(said * 2)

    thread = threading.Thread(target=serve)
    thread.start()
    with listening:
        yield "{}:{}".format(*listening.getsockname())
        thread.join()


def _connect(address: str) -> socket.socket:
    host, port = address.split(":")
    return socket.create_connection((host, int(port)), timeout=60)


def test_what_the_server_sends_is_passed_on_and_counted(server: str) -> None:
    with Relay() as relay:
        relay.begin(server)
        with _connect(relay.address) as client:
            client.sendall(bytes(1_000_000))
            client.shutdown(socket.SHUT_WR)
            received = 0
            while chunk := client.recv(65536):
                received += len(chunk)
        assert received == relay.sent_bytes == 2_000_000


def test_a_client_of_a_server_that_is_gone_is_let_go() -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        address = "{}:{}".format(*closed.getsockname())
    with Relay() as relay:
        relay.begin(address)
        with _connect(relay.address) as client:
            assert client.recv(1) == b""
        assert relay.sent_bytes == 0
