from __future__ import annotations

import pytest
from rowlock_proto.prefixes import prefix_stop


@pytest.mark.parametrize(
    ("prefix", "stop"),
    [(b"ab", b"ac"), (b"a\xff\xff", b"b"), (b"\xff\xff", b""), (b"", b""), (b"\x00", b"\x01")],
)
def test_a_prefix_stops_at_the_first_row_after_those_that_begin_with_it(prefix: bytes, stop: bytes) -> None:
    assert prefix_stop(prefix) == stop
