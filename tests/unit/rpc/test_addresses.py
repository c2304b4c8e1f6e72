"""Addresses that a server may listen on."""

from __future__ import annotations

import socket

import pytest
from rowlock_regionserver.rpc.addresses import Address, ListenError, checked_listen


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("127.0.0.1:7460", Address("127.0.0.1", 7460)),
        ("localhost:0", Address("localhost", 0)),
        ("[::1]:65535", Address("::1", 65535)),
    ],
)
def test_an_address_reads_as_it_is_written(text: str, address: Address) -> None:
    assert Address.parse(text) == address
    assert str(address) == text


@pytest.mark.parametrize(
    "text", ["", "7460", ":7460", "host", "host:", "host:x", "host:65536", "::1:80", "h:-1", "h:²"]
)
def test_what_is_no_address_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(ListenError, match=r"HOST:PORT, like 127\.0\.0\.1:7460"):
        Address.parse(text)


@pytest.mark.parametrize("text", ["127.0.0.1:0", "127.8.8.8:0", "[::1]:0", "localhost:0"])
def test_this_machines_own_addresses_are_safe(text: str) -> None:
    assert checked_listen(Address.parse(text), None, False) == Address.parse(text)


@pytest.mark.parametrize("text", ["0.0.0.0:0", "[::]:0", "192.0.2.1:0"])
def test_other_addresses_need_the_option_insecure(text: str) -> None:
    address, told = Address.parse(text), Address("db.example", 7460)
    with pytest.raises(ListenError, match="--insecure"):
        checked_listen(address, told, False)
    assert checked_listen(address, told, True) == address


def test_a_wildcard_address_needs_an_advertised_one() -> None:
    with pytest.raises(ListenError, match="--advertise"):
        checked_listen(Address("0.0.0.0", 1), None, True)


def test_an_unknown_name_is_refused() -> None:
    with pytest.raises(ListenError, match="can't resolve the host"):
        checked_listen(Address("no-such-host.invalid", 1), None, False)


def test_a_taken_port_is_named_as_such() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = Address("127.0.0.1", taken.getsockname()[1])
        assert "in use" in address.bind_error()
