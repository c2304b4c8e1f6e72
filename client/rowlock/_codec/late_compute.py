"""Imports pyarrow's functions at their first use, which takes 60 ms, without interruptions."""

from __future__ import annotations

from rowlock._uninterrupted import Uninterrupted

with Uninterrupted():
    from pyarrow import compute as compute
