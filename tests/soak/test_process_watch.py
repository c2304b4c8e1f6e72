"""Figures that rise and fall do not grow; those that fall back to more and more do."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.soak.process_watch import Sample, growth_problems


def samples(descriptors: Callable[[int], int], resident_mib: Callable[[int], float]) -> list[Sample]:
    return [Sample(float(second), descriptors(second), 40, resident_mib(second)) for second in range(400)]


@pytest.mark.parametrize("height", [10, 150])
def test_a_saw_of_any_height_does_not_grow(height: int) -> None:
    assert not growth_problems(samples(lambda second: 30 + height * (second % 20) // 20, lambda _: 100.0))


def test_files_that_are_never_closed_grow() -> None:
    (problem,) = growth_problems(samples(lambda second: 30 + second // 8 + 5 * (second % 20), lambda _: 100.0))
    assert problem.startswith("open files grew from ")


def test_memory_grows_by_its_median() -> None:
    (problem,) = growth_problems(samples(lambda _: 30, lambda second: 100 + second / 4))
    assert problem.startswith("resident MiB grew from ")
