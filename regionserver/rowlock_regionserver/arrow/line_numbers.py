"""The timestamps or write numbers of lines: of all cells one, of each line one, or of each cell one; see Lines."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rowlock_regionserver.arrow.columns import Integers


def numbers_at(numbers: Integers, lines: Integers | slice) -> Integers:
    """Returns the numbers of these lines, for a slice uncopied."""
    return numbers if numbers.shape[1] == 1 else numbers[:, lines]


def at_columns(numbers: Integers, given: Sequence[bytes], wanted: Sequence[bytes]) -> Integers:
    """Returns the numbers of the wanted columns, which include the given ones."""
    if numbers.shape[0] == 1 or given == wanted:
        return numbers
    spread = np.zeros((len(wanted), numbers.shape[1]), np.int64)
    spread[[wanted.index(qualifier) for qualifier in given]] = numbers
    return spread


def concatenated_numbers(parts: Sequence[Integers], counts: Sequence[int]) -> Integers:
    """Returns the numbers of several parts, which have `counts` lines, one after the other."""
    first = parts[0]
    if all(part.shape == (1, 1) and part[0, 0] == first[0, 0] for part in parts):
        return first
    height = max(part.shape[0] for part in parts)
    joined: Integers = np.concatenate(
        [
            part if part.shape == (height, count) else np.broadcast_to(part, (height, count))
            for part, count in zip(parts, counts, strict=True)
        ],
        axis=1,
    )
    return joined
