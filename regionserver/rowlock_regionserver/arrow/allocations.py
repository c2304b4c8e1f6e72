"""The memory that Arrow arrays keep alive, which may be more than what they show: a slice holds its whole buffer."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rowlock_regionserver.arrow.columns import Column


def bytes_kept_alive(arrays: Iterable[Column]) -> int:
    """Returns the bytes of the allocations behind the arrays, each counted once."""
    return sum(_allocations(arrays).values())


def shares_kept_alive(groups: Sequence[Iterable[Column]]) -> list[int]:
    """Returns for each group the bytes that it keeps alive; an allocation of several groups is divided among them."""
    of_groups = [_allocations(arrays) for arrays in groups]
    users: dict[int, int] = {}
    for allocations in of_groups:
        for address in allocations:
            users[address] = users.get(address, 0) + 1
    return [sum([size // users[address] for address, size in allocations.items()]) for allocations in of_groups]


def _allocations(arrays: Iterable[Column]) -> dict[int, int]:
    """Returns the sizes of the allocations by address."""
    size_by_address: dict[int, int] = {}
    for array in arrays:
        for buffer in array.buffers():
            root = buffer
            while root is not None and root.parent is not None:
                root = root.parent
            if root is not None:
                size_by_address[root.address] = root.size
    return size_by_address
