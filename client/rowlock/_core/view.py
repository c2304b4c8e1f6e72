"""The options with which a caller uses a table: durability, timeout and encoding."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic

from rowlock_proto.v1 import types_pb2

from rowlock._codec.columns import Text
from rowlock.errors import InvalidArgumentError
from rowlock.schema import durability_message


@dataclass(frozen=True, slots=True)
class View(Generic[Text]):
    """A table's name and the options of its calls; immutable."""

    table: str
    timeout_s: float
    decode: Callable[[bytes], Text]
    durability: types_pb2.Durability = types_pb2.DURABILITY_UNSPECIFIED

    def with_options(self, durability: str | None, timeout: float | None) -> View[Text]:
        """Returns a view with other options; None keeps the current one."""
        return dataclasses.replace(
            self,
            durability=self.durability if durability is None else durability_message(durability),
            timeout_s=self.timeout_s if timeout is None else checked_timeout(timeout),
        )


def milliseconds_of(name: str, seconds: float) -> int:
    """Returns the argument `name` in milliseconds, at least one.

    Raises InvalidArgumentError unless it is positive, TypeError if it is not a number.
    """
    return max(1, round(checked_timeout(seconds, name) * 1000))


def checked_timeout(timeout: float, name: str = "timeout") -> float:
    """Returns a timeout in seconds. Raises InvalidArgumentError outside (0, 1e9], TypeError if it is not a number."""
    if not isinstance(timeout, int | float) or isinstance(timeout, bool):
        raise TypeError(f"{name} must be a number of seconds, not {type(timeout).__name__}")
    # threading can't wait longer than about 292 years.
    if not 0 < timeout <= 1e9:
        raise InvalidArgumentError(f"{name} must be more than 0 seconds and at most 1e9, not {timeout}")
    return float(timeout)
