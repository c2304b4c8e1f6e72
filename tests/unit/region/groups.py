"""Whether a family's sources have a group of segments, of which a row that none has is looked up at once."""

from __future__ import annotations

from collections.abc import Sequence

from rowlock_regionserver.region.stores import Lookup


def has_group(lookup: Lookup, sources: Sequence[object]) -> bool:
    """Whether most of eleven absent rows exclude a source. A group lets a few other rows pass."""
    return sum(len(lookup.candidates(b"absent %d" % number)) < len(sources) for number in range(11)) > 5
