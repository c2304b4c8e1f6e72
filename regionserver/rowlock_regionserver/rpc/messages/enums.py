"""Enum values of messages: converts any 32-bit number to a member of an enum that this server knows."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import TypeVar

from rowlock_regionserver.cells import Durability
from rowlock_regionserver.errors import InvalidRequestError

E = TypeVar("E", bound=enum.IntEnum)


def member_of(kind: type[E], value: int, field: str) -> E:
    """Returns the member with that value. Raises InvalidRequestError, which names the message's field, if none has."""
    try:
        return kind(value)
    except ValueError:
        known = ", ".join(f"{member.value} ({member.name})" for member in kind)
        raise InvalidRequestError(f"{field} is {value}, which this server does not know; it knows {known}") from None


# By their numbers in messages; None: the message does not set it.
DURABILITIES: Mapping[int, Durability | None] = {0: None, **{member.value: member for member in Durability}}


def durability(value: int) -> Durability | None:
    """Returns the durability that the message sets; None if it sets none."""
    return DURABILITIES[value] if value in DURABILITIES else member_of(Durability, value, "durability")
