"""The rows of YCSB's core workloads: their keys and values, and which row the next operation takes.

The keys are those that YCSB makes by default ("insertorder=hashed"): consecutive row numbers are far apart in the
table.
Rows are chosen by its scrambled zipfian distribution: few rows get most operations, and they are spread over the table.
https://github.com/brianfrankcooper/YCSB/wiki/Core-Workloads
"""

from __future__ import annotations

from random import Random

FAMILY = "f"
FIELD_COUNT = 10
FIELD_BYTES = 100
COLUMNS = tuple(b"f:field%d" % number for number in range(FIELD_COUNT))
COUNTER_ROW = b"counter"
COUNTER_COLUMN = b"f:counter"

_THETA = 0.99
_MASK = (1 << 64) - 1


def fnv64(number: int) -> int:
    """Returns YCSB's hash of a number: FNV-1a of its eight bytes, as the absolute value of a signed integer."""
    digest = 0xCBF29CE484222325
    for _ in range(8):
        digest = ((digest ^ (number & 0xFF)) * 1_099_511_628_211) & _MASK
        number >>= 8
    return digest if digest < 1 << 63 else (1 << 64) - digest


def row_key(number: int) -> bytes:
    """Returns the key of a row. All keys have one length."""
    return b"user%019d" % fnv64(number)


def row_values(random: Random) -> dict[bytes, bytes]:
    """Returns random values of all columns of a row."""
    data = random.randbytes(FIELD_COUNT * FIELD_BYTES)
    return {column: data[at * FIELD_BYTES : (at + 1) * FIELD_BYTES] for at, column in enumerate(COLUMNS)}


def one_value(random: Random) -> dict[bytes, bytes]:
    """Returns a random value of one random column, as YCSB's updates write it."""
    return {random.choice(COLUMNS): random.randbytes(FIELD_BYTES)}


def zeta(count: int) -> float:
    """Returns the sum of the zipfian weights of so many ranks. Costs O(count)."""
    return float(sum(rank**-_THETA for rank in range(1, count + 1)))


class Zipfian:
    """Random ranks from 0 on, of which the first are the most frequent (Gray et al., SIGMOD 1994, as in YCSB)."""

    def __init__(self, random: Random, count: int, total_weight: float) -> None:
        """`total_weight` is zeta(count), which is computed once for many callers. There must be two ranks or more."""
        if count < 2:
            raise ValueError(f"a zipfian choice needs at least two ranks, not {count}")
        self._random, self._count, self._total = random, count, total_weight
        self._second = 1 + 0.5**_THETA
        self._eta = (1 - (2 / count) ** (1 - _THETA)) / (1 - self._second / total_weight)

    def rank(self) -> int:
        """Returns the next rank, below the count."""
        share = self._random.random()
        weight = share * self._total
        if weight < 1:
            return 0
        if weight < self._second:
            return 1
        rank = self._count * (self._eta * share - self._eta + 1) ** (1 / (1 - _THETA))
        return min(int(rank), self._count - 1)

    def scrambled(self) -> int:
        """Returns a row number whose frequency is that of a rank, but which is anywhere among the rows."""
        return fnv64(self.rank()) % self._count
