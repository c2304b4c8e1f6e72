"""The flipped bits of the campaign: the requested number in each kind of file, evenly spread, and none twice."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import pytest

from tests.crash import bit_flips
from tests.crash.account import Settings
from tests.crash.bit_flips import FILE_KINDS, FLIPS_A_KIND, Outcome, drawn
from tests.crash.structures import Structure


def structures_of(file_kind: str) -> list[Structure]:
    path = Path(file_kind)
    return [
        Structure(file_kind, "header", path, 0, 3),
        Structure(file_kind, "body", path, 3, 500),
        Structure(file_kind, "body", path.with_suffix(".other"), 3, 500),
        Structure(file_kind, "padding", path, 500, 600),
    ]


STRUCTURES = [structure for file_kind in FILE_KINDS for structure in structures_of(file_kind)]


def test_no_bit_is_flipped_twice() -> None:
    flips = drawn(STRUCTURES, random.Random(3), FLIPS_A_KIND)
    assert len({(flip.structure.path, flip.offset, flip.bit) for flip in flips}) == len(flips)
    assert Counter(flip.structure.file_kind for flip in flips) == dict.fromkeys(FILE_KINDS, FLIPS_A_KIND)
    assert all(flip.structure.start <= flip.offset < flip.structure.stop for flip in flips)


def test_flips_are_spread_evenly_and_what_is_too_small_has_all_its_bits_flipped() -> None:
    flips = drawn(STRUCTURES, random.Random(3), FLIPS_A_KIND)
    for file_kind in FILE_KINDS:
        seen = Counter(flip.structure for flip in flips if flip.structure.file_kind == file_kind)
        header, body, other_body, padding = (seen[structure] for structure in structures_of(file_kind))
        assert header == 24
        assert (body, other_body, padding) == (244, 244, 488)


def test_too_few_bits_are_a_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    """The campaign must not report success after fewer flips than it promises."""
    monkeypatch.setattr(bit_flips, "in_child", lambda work: {})
    monkeypatch.setattr(bit_flips, "structures", lambda base: STRUCTURES[:1])
    monkeypatch.setattr(bit_flips, "spread", lambda work, flips: ((flip, Outcome(1, 1, None)) for flip in flips))
    account = bit_flips.run(Settings(seed=3, is_short=False))
    assert account.counts["flips in log"] == 24
    assert account.notes == ["log: header: 24, 24 noticed"]
    assert len(account.problems) == len(FILE_KINDS)
