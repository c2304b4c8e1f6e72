"""Names an address that a server gave, and not the caller, in the errors of calls that reach nobody there."""

from __future__ import annotations

from collections.abc import Collection

from rowlock.errors import RowlockError, ServerUnavailableError


def origin(address: str, given: Collection[str]) -> str:
    """Returns where a server's address is from, for the end of a message; "" if it is one of those that were given."""
    if address in given:
        return ""
    return f"; {address} is the address that the server at {', '.join(given)} gives to its clients, see --advertise"


def with_origin(error: RowlockError, address: str, given: Collection[str]) -> RowlockError:
    """Returns the error of a call. If it reached no server, the message says where the address is from."""
    if type(error) is not ServerUnavailableError or not error.never_left or address in given:
        return error
    named = ServerUnavailableError(error.message + origin(address, given))
    named.never_left = True
    return named
