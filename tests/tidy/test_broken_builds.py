"""Each broken build of tests/mutants changes a passage that is there; a change of the code is told so at once."""

from __future__ import annotations

from pathlib import Path

from tests.mutants.broken_build import PACKAGE
from tests.mutants.test_mutants import MUTANTS


def test_what_each_broken_build_changes_is_there_once(root: Path) -> None:
    package = root / "regionserver" / PACKAGE
    counts = {mutant.name: (package / mutant.module).read_text().count(mutant.passage) for mutant in MUTANTS}
    assert {name: count for name, count in counts.items() if count != 1} == {}
