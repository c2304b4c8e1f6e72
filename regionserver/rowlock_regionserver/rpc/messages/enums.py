"""Enum values of messages, which arrive as any 32-bit number, as members of the enums that we know."""

from __future__ import annotations

import enum
from typing import TypeVar

from rowlock_regionserver.cells import Durability
from rowlock_regionserver.errors import InvalidRequestError

E = TypeVar("E", bound=enum.IntEnum)


def member_of(kind: type[E], value: int, field: str) -> E:
    """The member of that value; InvalidRequestError naming the message's field when there is none."""
    try:
        return kind(value)
    except ValueError:
        known = ", ".join(f"{member.value} ({member.name})" for member in kind)
        raise InvalidRequestError(f"{field} is {value}, which this server does not know; it knows {known}") from None


def durability(value: int) -> Durability | None:
    """What the message asks for; None when it doesn't say."""
    return member_of(Durability, value, "durability") if value else None
