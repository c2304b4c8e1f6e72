"""The block cache keeps the blocks that were used last, within its bound."""

from __future__ import annotations

import random
import threading
from collections import OrderedDict

from rowlock_regionserver.storefile.block import Block
from rowlock_regionserver.storefile.cache import BlockCache

from tests.invariants import check
from tests.seeds import drawn_seed
from tests.unit.storefile.store_file_case import simple_cells, table_of


def block(cell_count: int = 1) -> Block:
    (batch,) = table_of(simple_cells(cell_count)).to_batches()
    return Block(batch)


def test_the_least_recently_used_block_is_evicted_first() -> None:
    one = block()
    cache = BlockCache(3 * one.bytes_held)
    reader = cache.new_reader()
    for number in range(3):
        cache.put(reader, number, block())
    assert cache.get(reader, 0) is not None
    cache.put(reader, 3, block())
    assert [cache.holds(reader, number) for number in range(4)] == [True, False, True, True]
    check(cache)
    assert cache.statistics().evicted_count == 1


def test_several_blocks_are_found_as_one_by_one() -> None:
    one = block()
    cache = BlockCache(3 * one.bytes_held)
    reader = cache.new_reader()
    blocks = [block() for _ in range(3)]
    for number, each in enumerate(blocks):
        cache.put(reader, number, each)
    assert cache.get_several(reader, [1, 7, 0]) == [blocks[1], None, blocks[0]]
    assert (cache.statistics().hit_count, cache.statistics().miss_count) == (2, 1)
    cache.put(reader, 3, block())
    cache.put(reader, 4, block())
    # The other ones were used last, first number 1 and then number 0.
    assert [cache.holds(reader, number) for number in range(5)] == [True, False, False, True, True]
    assert cache.get_several(reader, []) == []


def test_a_block_over_the_bound_is_not_cached_and_evicts_nothing() -> None:
    cache = BlockCache(block().bytes_held + 100)
    reader = cache.new_reader()
    cache.put(reader, 0, block())
    cache.put(reader, 1, block(500))
    assert cache.holds(reader, 0)
    assert not cache.holds(reader, 1)


def test_asking_whether_a_block_is_held_is_not_a_use() -> None:
    cache = BlockCache(2 * block().bytes_held)
    reader = cache.new_reader()
    cache.put(reader, 0, block())
    cache.put(reader, 1, block())
    assert cache.holds(reader, 0)
    cache.put(reader, 2, block())
    assert not cache.holds(reader, 0)
    assert (cache.statistics().hit_count, cache.statistics().miss_count) == (0, 0)


def test_a_block_put_again_is_counted_once() -> None:
    cache = BlockCache(1 << 20)
    reader = cache.new_reader()
    cache.put(reader, 0, block(5))
    again = block(7)
    cache.put(reader, 0, again)
    assert cache.get(reader, 0) is again
    assert cache.statistics().bytes_held == again.bytes_held
    check(cache)


def test_readers_do_not_see_each_others_blocks_and_leave_nothing_behind() -> None:
    cache = BlockCache(1 << 20)
    first, second = cache.new_reader(), cache.new_reader()
    cache.put(first, 0, block())
    assert cache.get(second, 0) is None
    cache.put(second, 0, block())
    cache.release_reader(first)
    assert cache.statistics().block_count == 1
    assert cache.holds(second, 0)
    check(cache)


def test_a_cache_of_no_bytes_holds_nothing() -> None:
    cache = BlockCache(0)
    cache.put(cache.new_reader(), 0, block())
    assert cache.statistics().block_count == 0


def test_many_threads_keep_the_cache_within_its_bound() -> None:
    cache = BlockCache(10 * block(3).bytes_held)
    readers = [cache.new_reader() for _ in range(3)]
    seed = drawn_seed()

    def use(number: int) -> None:
        chance = random.Random(seed + number)
        for _ in range(500):
            reader, place = chance.choice(readers), chance.randrange(20)
            if cache.get(reader, place) is None:
                cache.put(reader, place, block(1 + place % 4))
            if chance.random() < 0.01:
                cache.release_reader(chance.choice(readers))

    threads = [threading.Thread(target=use, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    cache.statistics()
    check(cache)
    assert cache.statistics().hit_count + cache.statistics().miss_count == 2000


def test_memory_of_indexes_is_counted_until_their_readers_are_released() -> None:
    cache = BlockCache(1 << 20)
    first, second = cache.new_reader(1000), cache.new_reader(20)
    cache.put(first, 0, block())
    assert cache.index_bytes_held == 1020
    cache.release_reader(first)
    cache.put(second, 0, block())
    assert cache.index_bytes_held == 20
    check(cache)


def test_a_cache_that_borrows_holds_more_and_returns_it() -> None:
    one = block().bytes_held
    cache, bound = BlockCache(2 * one), [5 * one]
    cache.borrow(lambda: bound[0])
    reader = cache.new_reader()
    for number in range(6):
        cache.put(reader, number, block())
    assert [cache.holds(reader, number) for number in range(6)] == [False, True, True, True, True, True]
    cache.get(reader, 1)
    bound[0] = 2 * one
    cache.shrink()
    assert [cache.holds(reader, number) for number in range(6)] == [False, True, False, False, False, True]
    check(cache)


def test_a_cache_makes_room_before_it_takes_a_block() -> None:
    """The ledger may look at any time, also between two steps of a call."""
    one = block().bytes_held
    cache = BlockCache(2 * one)
    held: list[int] = []

    class Watched(OrderedDict[int, tuple[Block, int]]):
        def __setitem__(self, key: int, value: tuple[Block, int]) -> None:
            held.append(cache.bytes_held)
            super().__setitem__(key, value)

    cache._blocks = Watched()  # type: ignore[assignment]
    reader = cache.new_reader()
    for number in range(3):
        cache.put(reader, number, block())
    assert held == [0, one, one]
