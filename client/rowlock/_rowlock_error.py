"""The base of the exceptions of the client, which are in errors.py."""

from __future__ import annotations

from typing import ClassVar


class RowlockError(Exception):
    """Base of all errors of the client.

    message: one sentence: what failed, where, and what to do.
    table, row, family, qualifier: what the error concerns; empty if unknown.
    retry_after_ms: how many milliseconds the server asks to wait before a retry; 0 if it does not say.
    can_retry: whether the same call may succeed later.
    """

    __module__ = "rowlock.errors"
    can_retry: ClassVar[bool] = False

    def __init__(
        self,
        message: str,
        *,
        table: str = "",
        row: bytes = b"",
        family: bytes = b"",
        qualifier: bytes = b"",
        retry_after_ms: int = 0,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.table = table
        self.row = row
        self.family = family
        self.qualifier = qualifier
        self.retry_after_ms = retry_after_ms

    @property
    def column(self) -> bytes:
        """`family:qualifier` if the error concerns one column, else empty."""
        return self.family + b":" + self.qualifier if self.family else b""

    def __str__(self) -> str:
        # Not OSError.__str__, which looks for an errno.
        return self.message
