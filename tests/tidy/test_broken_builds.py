"""Each broken build of tests/mutants finds its passage, in whichever folder its module is, and its test exists."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.mutants.anchors import changed_module, definitions_in
from tests.mutants.broken_build import changed
from tests.mutants.test_mutants import MUTANTS

SOURCE = """
LIMIT = 3
class Gate:
    def close(self):
        if self._is_open and (
            self._count < LIMIT
        ):
            return wait_for(
                self._count,
                LIMIT,
            )
def close(self):
    return LIMIT
"""


def not_found() -> dict[str, str]:
    errors = {}
    for mutant in MUTANTS:
        try:
            changed(mutant)
        except AssertionError as error:
            errors[mutant.name] = str(error)
    return errors


def test_the_passage_of_each_broken_build_occurs_once() -> None:
    assert not_found() == {}


def test_the_test_that_catches_each_broken_build_exists() -> None:
    tests = Path(__file__).parents[1]
    missing = []
    for mutant in MUTANTS:
        path, _, node = mutant.caught_by.partition("::")
        name = node.rpartition("::")[2].partition("[")[0]
        if not (tests / path).is_file() or (name and f"def {name}(" not in (tests / path).read_text()):
            missing.append(f"{mutant.name}: {mutant.caught_by}")
    assert missing == []


def test_a_passage_is_found_in_whichever_folder_and_however_its_lines_are_wrapped(tmp_path: Path) -> None:
    module = tmp_path / "some" / "folder" / "gate.py"
    module.parent.mkdir(parents=True)
    module.write_text(SOURCE)
    definitions = definitions_in(tmp_path)
    wrapped_differently = "            return wait_for(self._count, LIMIT)\n"
    path, source = changed_module(definitions, "Gate.close", wrapped_differently, "            return 0\n")
    assert path == Path("some/folder/gate.py")
    assert source.endswith("        ):\n            return 0\ndef close(self):\n    return LIMIT\n")
    _, source = changed_module(definitions, "Gate.close", "if self._is_open and (self._count < LIMIT):", "if True:")
    assert "        if True:\n            return wait_for(" in source
    _, source = changed_module(definitions, "LIMIT", "3", "4")
    assert source == SOURCE.replace("3", "4")


def test_of_definitions_of_one_name_exactly_one_must_have_the_passage(tmp_path: Path) -> None:
    (tmp_path / "one.py").write_text("def f():\n    return 1 + x\n")
    (tmp_path / "two.py").write_text("def f():\n    return 2 + x\n")
    definitions = definitions_in(tmp_path)
    assert changed_module(definitions, "f", "return 2", "return 3")[0] == Path("two.py")
    with pytest.raises(AssertionError, match=r"f \(one.py, two.py\) has the passage 2 times"):
        changed_module(definitions, "f", "+ x", "- x")
    with pytest.raises(AssertionError, match=r"f \(one.py, two.py\) has the passage 0 times"):
        changed_module(definitions, "f", "+ y", "- y")
    with pytest.raises(AssertionError, match="nothing in the package is called g"):
        changed_module(definitions, "g", "+ x", "- x")
