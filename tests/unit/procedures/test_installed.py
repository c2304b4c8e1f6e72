"""Which procedures are installed, by their entry points."""

from __future__ import annotations

from pathlib import Path

import pytest
from rowlock_regionserver.procedures.installed import installed_procedures

from tests.procedure_packages import write_package


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


def test_only_those_that_are_named_can_be_called_and_none_is_imported(folder: Path) -> None:
    write_package(folder, "broken_module", "raise Exception", {"a": "broken_module:f", "b": "broken_module:g.h"})
    assert installed_procedures("") == {}
    assert installed_procedures("b") == {"b": "broken_module:g.h"}
    assert installed_procedures(" b , a,a,") == {"a": "broken_module:f", "b": "broken_module:g.h"}


def test_what_is_not_installed_is_refused_with_what_is(folder: Path) -> None:
    with pytest.raises(ValueError, match=r"no installed package has an entry point 'a'.*; those installed: none"):
        installed_procedures("a")
    write_package(folder, "some_module", "", {"b": "some_module:f", "c": "some_module:f"})
    with pytest.raises(ValueError, match=r"entry point 'a' in the group rowlock.procedures; those installed: b, c"):
        installed_procedures("b,a")


def test_a_name_of_two_packages_is_refused(folder: Path) -> None:
    write_package(folder, "one_module", "", {"a": "one_module:f"})
    write_package(folder, "two_module", "", {"a": "two_module:f"})
    with pytest.raises(ValueError, match="several packages install a procedure 'a': one_module:f, two_module:f"):
        installed_procedures("a")


@pytest.mark.parametrize("name", ["a b", "a=b", "a:b", "a" * 101, "ä"])
def test_malformed_names_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match="is not a name of a procedure"):
        installed_procedures(name)
