"""docs/locks.md and the one table of operations and their locks say the same."""

from __future__ import annotations

from pathlib import Path

from rowlock_regionserver.locks.lock import LockKey, Mode
from rowlock_regionserver.locks.lock_matrix import MATRIX, Operation, wanted_by

_PAGE = Path(__file__).parents[3] / "docs" / "locks.md"


def rows_of_the_page() -> dict[str, tuple[str, str]]:
    """The mode of the table and of its regions, by operation; without explicit locks, which have any mode."""
    cells = [line.strip("| ").split("|") for line in _PAGE.read_text().splitlines() if line.startswith("| ")]
    rows = [[cell.strip() for cell in each] for each in cells if len(each) == 4]
    modes = [(name.split(" (")[0], table.split(",")[0], regions.split(",")[0]) for name, table, regions, _ in rows]
    return {
        name: (table, regions)
        for name, table, regions in modes
        if table in ("shared", "exclusive") and not name.startswith("`db.lock")
    }


def test_the_page_and_the_matrix_agree() -> None:
    matrix = {
        operation.value: (modes.table.value, modes.regions.value if modes.regions else "")
        for operation, modes in MATRIX.items()
    }
    assert rows_of_the_page() == matrix


def test_each_operation_has_its_locks() -> None:
    assert set(MATRIX) == set(Operation)
    assert wanted_by(Operation.DROP, "t", [3]) == ((LockKey("t"), Mode.EXCLUSIVE),)
    assert wanted_by(Operation.MERGE, "t", [4, 3]) == (
        (LockKey("t"), Mode.SHARED),
        (LockKey("t", 3), Mode.EXCLUSIVE),
        (LockKey("t", 4), Mode.EXCLUSIVE),
    )
