"""Enum values of messages, which arrive as any 32-bit number, as members of the enums that we know."""

from __future__ import annotations

import enum
from collections.abc import Mapping
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


# By their numbers in messages; None: the message doesn't say.
DURABILITIES: Mapping[int, Durability | None] = {0: None, **{member.value: member for member in Durability}}


def durability(value: int) -> Durability | None:
    """What the message asks for; None when it doesn't say."""
    return DURABILITIES[value] if value in DURABILITIES else member_of(Durability, value, "durability")
