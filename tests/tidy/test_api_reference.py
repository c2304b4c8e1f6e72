"""The API reference: which names it has, and how docstrings and signatures become Markdown."""

from __future__ import annotations

import builtins
import collections.abc
import re
import typing
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import overload

import pytest
import rowlock
import rowlock.aio
import rowlock.spark

from tools import api
from tools.api_signatures import class_code, function_code, members_of

# Names in signatures that other packages describe.
_OF_OTHERS = ("DataFrame", "Path", "PathLike", "SparkSession", "StructType")


def test_the_page_has_every_public_name_once(root: Path) -> None:
    headings = re.findall(r"^### (.+)$", (root / "docs" / "api.md").read_text(), re.MULTILINE)
    fixtures = ["rowlock_server", "rowlock_client", "RowlockServer"]
    expected = [*rowlock.__all__, *rowlock.spark.__all__, *fixtures]
    expected.remove("aio")
    assert sorted(headings) == sorted(expected)


def test_the_page_explains_each_name_of_its_signatures(root: Path) -> None:
    page = (root / "docs" / "api.md").read_text()
    introduction, _, rest = page.partition("\n## ")
    explained = set(re.findall(r"^#+ (\w+)$", rest, re.MULTILINE)) | set(re.findall(r"\w+", introduction))
    known = {*dir(builtins), *dir(typing), *dir(collections.abc), *_OF_OTHERS}
    signatures = "\n".join(re.findall(r"```python\n((?:@|def |class ).*?)```", page, re.DOTALL))
    found = set(re.findall(r"(?<![\w.'\"])[A-Z]\w+", re.sub(r"'[^'\n]*'", "", signatures)))
    assert sorted(found - explained - known) == []


def test_the_page_describes_what_a_column_and_a_bulk_write_can_do(root: Path) -> None:
    page = (root / "docs" / "api.md").read_text()
    for name in ("ColumnExpression.matches", "TypedColumn.is_in", "BulkWrite.result", "Batch.applied_count"):
        assert f"\n#### {name}\n" in page, name


def test_each_class_of_asyncio_has_the_members_of_its_namesake() -> None:
    for name in rowlock.aio.__all__:
        awaited, blocking = getattr(rowlock.aio, name), getattr(rowlock, name)
        if isinstance(awaited, type):
            assert {member for member, _ in members_of(awaited)} == {member for member, _ in members_of(blocking)}, name


def test_a_stale_page_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(api, "PAGE", tmp_path / "api.md")
    assert api.main(["--check"]) == 1
    assert capsys.readouterr().err == "stale: docs/api.md; run 'make api'\n"
    assert api.main([]) == 0
    assert api.main(["--check"]) == 0
    api.PAGE.write_text(api.PAGE.read_text() + "\n")
    assert api.main(["--check"]) == 1


def test_arguments_become_a_list_and_an_example_becomes_code() -> None:
    docstring = (
        "Does it.\n\nname: the name,\n    or none. other: what: else. third,\nfourth: two.\n\n    do(it)\n\nThe end."
    )
    assert api.markdown(docstring) == (
        "Does it.\n\n- name: the name, or none.\n- other: what: else.\n- third, fourth: two.\n\n"
        "```python\ndo(it)\n```\n\nThe end."
    )


@overload
def sample(a: int, /) -> int: ...
@overload
def sample(a: str, *rest: bytes, kind: type[bytes] = bytes, **others: object) -> str: ...
def sample(a: object, *rest: object, **others: object) -> object:
    return a


@contextmanager
def opened() -> Iterator[int]:
    yield 1


def iterated() -> Iterator[int]:
    yield 1


class _Base:
    def inherited(self) -> None:
        """Is public."""

    def _private(self) -> None: ...


@dataclass
class _Sample(_Base):
    a: int
    b: list[str] = field(default_factory=list)

    @property
    def c(self) -> int:
        return self.a

    @classmethod
    def of(cls, text: str, *, much: bool = False) -> _Sample:
        return cls(int(text))


def test_signatures_are_written_as_in_the_source() -> None:
    assert function_code(sample) == [
        "def sample(a: int) -> int: ...",
        "def sample(a: str, *rest: bytes, kind: type[bytes] = bytes, **others: object) -> str: ...",
    ]
    assert function_code(opened) == ["@contextmanager", "def opened() -> Iterator[int]: ..."]
    assert function_code(iterated) == ["def iterated() -> Iterator[int]: ..."]
    assert class_code(_Sample) == "class _Sample:\n    a: int\n    b: list[str] = []"


def test_an_error_names_its_own_bases_and_does_not_repeat_their_members() -> None:
    assert class_code(rowlock.DeadlineError) == "class DeadlineError(RowlockError, TimeoutError): ..."
    assert "column" in dict(members_of(rowlock.RowlockError))
    assert "column" not in dict(members_of(rowlock.DeadlineError))


def test_members_are_those_of_the_class_and_then_of_its_bases(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_Sample, "__module__", "rowlock.sample")
    monkeypatch.setattr(_Base, "__module__", "rowlock.sample")
    members = list(members_of(_Sample))
    assert [name for name, _ in members] == ["c", "of", "inherited"]
    assert [function_code(member) for _, member in members] == [
        ["@property", "def c() -> int: ..."],
        ["def of(text: str, *, much: bool = False) -> _Sample: ..."],
        ["def inherited() -> None: ..."],
    ]
