"""Random stores, settings, flushes, readers and days: each plan is legal, and plans come to an end.

Each case is made from the run's seed and its number.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Sequence
from dataclasses import replace

from rowlock_regionserver.compaction.picker import FileFacts, Kind, Plan, pick, pick_requested
from rowlock_regionserver.compaction.settings import CompactionSettings

from tests.seeds import generator_of

CASES = 1500
STEPS = 30
DAY_MS = 24 * 3600 * 1000

Picker = Callable[[Sequence[FileFacts], CompactionSettings], Plan | None]


def test_any_files_give_a_legal_plan_or_none_and_plans_come_to_an_end() -> None:
    kinds = set()
    for case in range(CASES):
        generator = generator_of(f"files {case}")
        settings = _settings(generator)
        files = _files(generator, generator.choice([0, 1, 3, 8, 40]))
        for picker in (pick, _requested_minor, _requested_major):
            plans = _idle(files, settings, picker, generator)[1]
            kinds |= {(picker, plan.kind) for plan in plans}
    assert len(kinds) >= 5, "the test would prove little"


def test_an_idle_store_has_no_clipped_file() -> None:
    clipped = 0
    for case in range(CASES):
        generator = generator_of(f"clipped {case}")
        settings = replace(_settings(generator), automatic=True)
        files = _files(generator, generator.choice([1, 3, 8, 40]))
        files.sort(key=lambda file: file.is_base)  # as in a server's store
        bases = sum(file.is_base for file in files)
        if bases < settings.files_max:
            clipped += sum(file.is_clipped for file in files)
            left = _idle(files, settings, pick, generator)[0]
            assert not any(file.is_clipped for file in left), f"case {case}"
    assert clipped, "the test would prove little"


def test_a_request_that_is_continued_comes_to_an_end() -> None:
    continued = 0
    for case in range(CASES):
        generator = generator_of(f"request {case}")
        settings = _settings(generator)
        is_major = generator.random() < 0.7
        files = _files(generator, generator.choice([1, 3, 8, 40]))
        files.sort(key=lambda file: file.is_base)  # as in a server's store
        for _ in range(3 * len(files)):
            plan = pick_requested(files, settings, major=is_major)
            if plan is None:
                break
            _check_legal(plan, files, settings)
            files = _applied(files, plan, generator)
            if not plan.is_continued:
                break
            continued += 1
        else:
            raise AssertionError(f"case {case}: the request has no end")
        if is_major:
            assert all(file.is_base for file in files), f"case {case}"
        else:
            assert pick_requested(files, settings, major=False) is None, f"case {case}"
    assert continued, "the test would prove little"


def test_a_store_that_is_written_for_days_always_becomes_idle_with_few_deltas() -> None:
    for case in range(CASES // 10):
        generator = generator_of(f"store {case}")
        settings = replace(_settings(generator), automatic=True)
        files: list[FileFacts] = []
        for step in range(STEPS):
            files = [
                _delta(generator, 1 + max((file.number for file in files), default=step), is_realistic=True),
                *files,
            ]
            files = [_aged(file, generator) for file in files]
            files = _idle(files, settings, pick, generator)[0]
            deltas = sum(not file.is_base for file in files)
            assert not settings.major_deltas or deltas < max(2, settings.major_deltas), f"case {case}"


def test_a_major_compaction_leaves_so_few_bases_that_there_is_room_for_deltas() -> None:
    for case in range(CASES):
        generator = generator_of(f"bases {case}")
        settings = replace(_settings(generator), files_max=generator.choice([2, 3, 8, 20, 500]), minor_files_min=2)
        files = [_delta(generator, number) for number in range(settings.files_max, 0, -1)]
        plan = pick_requested(files, settings, major=True)
        assert plan is not None
        assert len(plan.groups) + len(plan.moved) <= settings.files_max / 4 + 1, f"case {case}"


def _requested_minor(files: Sequence[FileFacts], settings: CompactionSettings) -> Plan | None:
    return pick_requested(files, settings, major=False)


def _requested_major(files: Sequence[FileFacts], settings: CompactionSettings) -> Plan | None:
    return pick_requested(files, settings, major=True)


def _idle(
    files: Sequence[FileFacts], settings: CompactionSettings, picker: Picker, generator: random.Random
) -> tuple[list[FileFacts], list[Plan]]:
    """Returns the files of the idle store, and the plans that made it so."""
    left = list(files)
    plans = []
    while (plan := picker(left, settings)) is not None:
        _check_legal(plan, left, settings)
        left = _applied(left, plan, generator)
        plans.append(plan)
        assert len(plans) <= 3 * len(files) + 3, f"no end: {settings}, {plan}, {left}"
    return left, plans


def _check_legal(plan: Plan, files: Sequence[FileFacts], settings: CompactionSettings) -> None:
    numbers = [file.number for file in files]
    start = numbers.index(plan.inputs[0])
    inputs = files[start : start + len(plan.inputs)]
    where = f"{plan} of {files} with {settings}"
    assert [file.number for file in inputs] == list(plan.inputs), f"no neighbours: {where}"
    assert 0 < len(inputs) <= settings.files_max, f"too many: {where}"
    assert plan.why, where
    parts = [number for group in (*plan.groups, plan.moved, plan.dropped) for number in group]
    assert sorted(parts) == sorted(plan.inputs), f"not each input once: {where}"
    for group in (*plan.groups, plan.moved, plan.dropped):
        assert [number for number in numbers if number in group] == list(group), f"not newest first: {where}"
    facts = {file.number: file for file in inputs}
    assert all(facts[number].is_all_expired for number in plan.dropped), where
    if plan.kind is Kind.MINOR:
        assert not plan.moved, where
        assert len(plan.groups) <= 1, where
        assert all(len(group) > 1 or facts[group[0]].is_clipped for group in plan.groups), where
        assert all(not facts[number].is_base for group in plan.groups for number in group), where
        return
    assert plan.inputs[-1] == numbers[-1], f"not complete at the old end: {where}"
    assert all(len(group) > 1 or facts[group[0]].must_rewrite for group in plan.groups), where
    assert not any(facts[number].must_rewrite for number in plan.moved), where
    outputs = [[facts[number] for number in group] for group in (*plan.groups, *((number,) for number in plan.moved))]
    ranges = sorted((min(file.first_row for file in group), max(file.last_row for file in group)) for group in outputs)
    for (_, last_row), (first_row, _) in itertools.pairwise(ranges):
        assert last_row < first_row, f"outputs overlap: {where}"


def _applied(files: Sequence[FileFacts], plan: Plan, generator: random.Random) -> list[FileFacts]:
    """Returns the store's files after the compaction, as a compactor may leave them."""
    facts = {file.number: file for file in files}
    is_major = plan.kind is Kind.MAJOR
    outputs = [replace(facts[number], is_base=True) for number in plan.moved]
    free = max(facts) + 1
    for number, group in enumerate(plan.groups, free):
        output = _output([facts[one] for one in group], number, is_major, generator)
        if output.cell_count:
            outputs.append(output)
    start = next(index for index, file in enumerate(files) if file.number == plan.inputs[0])
    left = [file for file in files if file.number not in plan.inputs]
    return [*left[:start], *outputs, *left[start:]]


def _output(inputs: Sequence[FileFacts], number: int, is_major: bool, generator: random.Random) -> FileFacts:
    """Returns what may come of the inputs: everything that may stay stays, or some of it does."""
    is_protected = any(file.is_protected for file in inputs)
    drops_tombstones = is_major and not is_protected
    tombstones = sum(0 if drops_tombstones else file.tombstone_count for file in inputs)
    cells = sum(file.cell_count - file.tombstone_count - file.expired_count for file in inputs)
    cells = tombstones + generator.choice([cells, generator.randint(0, max(cells, 0))])
    return FileFacts(
        number=number,
        byte_count=int(generator.choice([1, generator.random()]) * sum(file.byte_count for file in inputs)),
        cell_count=max(0, cells),
        tombstone_count=min(tombstones, max(0, cells)),
        expired_count=0,
        is_all_expired=False,
        is_base=is_major,
        is_protected=is_protected,
        age_ms=0 if is_major else max(file.age_ms for file in inputs),
        first_row=min(file.first_row for file in inputs),
        last_row=max(file.last_row for file in inputs),
        row_count=sum(file.row_count for file in inputs),
        family_tombstone_count=0,
        has_surplus_versions=is_protected and any(file.has_surplus_versions for file in inputs),
    )


def _aged(file: FileFacts, generator: random.Random) -> FileFacts:
    """Returns the file some hours later, when cells have expired and readers have ended and begun."""
    expired = generator.random() < 0.1
    return replace(
        file,
        age_ms=file.age_ms + generator.randint(0, DAY_MS),
        is_protected=generator.random() < 0.2,
        expired_count=generator.randint(0, file.cell_count - file.tombstone_count) if expired else file.expired_count,
        is_all_expired=file.is_all_expired or generator.random() < 0.01,
    )


def _settings(generator: random.Random) -> CompactionSettings:
    files_min = generator.choice([2, 3, 4, 8])
    return CompactionSettings(
        automatic=generator.random() < 0.95,
        minor_files_min=files_min,
        minor_size_ratio=generator.choice([1.0, 1.2, 1.5, 10.0]),
        major_deltas=generator.choice([0, 1, 2, 5, 10]),
        major_delta_share=generator.choice([0, 0.01, 0.1, 1.0, 1000]),
        major_dropped_share=generator.choice([0, 0.01, 0.2, 1.0]),
        major_age_ms=generator.choice([0, 1, 7 * DAY_MS]),
        files_max=generator.choice([files_min, files_min + 1, 20, 500]),
        move_bytes_min=generator.choice([0, 1, 1000, 1 << 40]),
    )


def _files(generator: random.Random, count: int) -> list[FileFacts]:
    """Returns any files, among them those that no server makes."""
    bases_from = generator.choice([0, count // 2, count, None])
    files = []
    for index, number in enumerate(generator.sample(range(1, 1000), count)):
        is_base = generator.random() < 0.5 if bases_from is None else index >= bases_from
        files.append(replace(_delta(generator, number), is_base=is_base))
    return files


def _delta(generator: random.Random, number: int, *, is_realistic: bool = False) -> FileFacts:
    cells = generator.choice([0, 1, 10, 1000]) + is_realistic
    tombstones = generator.choice([0, 0, generator.randint(0, cells)])
    rows = sorted(generator.choices([b"", b"a", b"ab", b"b", b"c", b"d", b"e", b"f", b"\xff"], k=2))
    return FileFacts(
        number=number,
        byte_count=generator.choice([0, 1, 7, 100, 1000, 10**6, generator.randint(0, 10**9)]),
        cell_count=cells,
        tombstone_count=tombstones,
        expired_count=generator.choice([0, 0, generator.randint(0, cells - tombstones)]),
        is_all_expired=generator.random() < 0.05,
        is_base=False,
        is_protected=generator.random() < 0.2,
        age_ms=generator.choice([-1000, 0, 1, DAY_MS, 8 * DAY_MS]),
        first_row=rows[0],
        last_row=rows[1],
        row_count=generator.randint(0, cells),
        family_tombstone_count=generator.randint(0, tombstones),
        has_surplus_versions=generator.random() < 0.1,
        is_clipped=not is_realistic and generator.random() < 0.2,
    )
