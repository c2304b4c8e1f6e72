"""Documents: links resolve, code in the README parses, versions agree."""

from __future__ import annotations

import ast
import codeop
import re
import subprocess
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tests.pages import parsed, without_blocks

_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)(?:\s+\"[^\"]*\")?\)")
_HEADING = re.compile(r"^#{1,6}\s+(.*)$", re.MULTILINE)


def links_of(text: str) -> Iterator[str]:
    """Yields the targets of links outside of code blocks."""
    for match in _LINK.finditer(without_blocks(text)):
        yield match.group(1)


def anchor_of(heading: str) -> str:
    """Returns the anchor that GitHub gives to a heading: lower case, spaces to hyphens, no punctuation."""
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")


@pytest.fixture(scope="session")
def documents(committed_files: Sequence[Path]) -> Sequence[Path]:
    return [path for path in committed_files if path.suffix == ".md"]


def test_relative_links_resolve(root: Path, documents: Sequence[Path]) -> None:
    broken = []
    for path in documents:
        for target in links_of(path.read_text()):
            if re.match(r"[a-z]+:", target):
                continue
            name, _, anchor = target.partition("#")
            found = path if not name else (path.parent / name)
            if not found.exists():
                broken.append(f"{path.relative_to(root)}: {target} does not exist")
            elif anchor and anchor not in map(anchor_of, _HEADING.findall(found.read_text())):
                broken.append(f"{path.relative_to(root)}: {target} has no such heading")
    assert not broken, "\n".join(broken)


def test_documents_that_visitors_expect_exist(root: Path) -> None:
    expected = ["README.md", "ARCHITECTURE.md", "STYLE.md", "CONTRIBUTING.md", "CHANGELOG.md", "LICENSE"]
    expected += [f"docs/{name}" for name in ("wal_format.md", "storefile_format.md", "mvcc.md", "found_bugs.md")]
    missing = [name for name in expected if not (root / name).is_file() or not (root / name).read_text().strip()]
    assert not missing, missing


def test_every_decision_is_in_the_list(root: Path) -> None:
    folder = root / "docs" / "decisions"
    listed = set(links_of((folder / "README.md").read_text()))
    pages = {path.name for path in folder.glob("*.md")} - {"README.md"}
    assert pages == listed


def named_tests(row: str) -> Iterator[tuple[str, str]]:
    """Yields (path, name) of each test in a row of found_bugs.md. `::name` follows its file; no name: a whole file."""
    path = ""
    for code in re.findall(r"`([^`]+)`", row):
        if code.startswith(("tests/", "::")):
            file, _, name = code.partition("::")
            path = file or path
            yield path, name


def test_each_test_that_the_found_bugs_name_exists(root: Path) -> None:
    rows = [line for line in (root / "docs" / "found_bugs.md").read_text().splitlines() if line.startswith("| ")]
    missing = []
    for path, name in [test for row in rows for test in named_tests(row)]:
        if not (root / path).is_file() or f"def {name}(" not in (root / path).read_text() + "def (":
            missing.append(f"{path}::{name}")
    assert len(rows) > 100
    assert not missing, "\n".join(missing)


def test_each_found_bug_is_listed_once(root: Path) -> None:
    rows = (root / "docs" / "found_bugs.md").read_text().splitlines()
    bugs = [row.split(" | ")[0] for row in rows if row.startswith("| ")]
    assert not [bug for bug in bugs if bugs.count(bug) > 1]


def test_code_in_documents_parses(root: Path, documents: Sequence[Path], tmp_path: Path) -> None:
    broken = []
    for path in documents:
        for block in parsed(path.read_text()):
            where = f"{path.relative_to(root)}, line {block.line}"
            if block.language == "python":
                try:
                    ast.parse(block.text)
                except SyntaxError as error:
                    broken.append(f"{where}: {error}")
            elif block.language == "bash":
                ran = subprocess.run(["bash", "-n"], input=block.text, capture_output=True, text=True)
                if ran.returncode != 0:
                    broken.append(f"{where}: {ran.stderr.strip()}")
    assert not broken, "\n".join(broken)


def prompt_error(text: str) -> str:
    """Returns why a block can't be pasted at the prompt of Python 3.11, where an empty line ends a statement."""
    statement: list[str] = []
    for line in [*text.splitlines(), ""]:
        statement.append(line)
        try:
            if codeop.compile_command("\n".join(statement), symbol="single") is not None:
                statement.clear()
        except SyntaxError as error:
            return f"{error.msg}: {line.strip() or statement[0]}"
    return "" if not statement else f"it does not end: {statement[0]}"


def test_blocks_of_python_can_be_pasted_at_the_prompt(root: Path, documents: Sequence[Path]) -> None:
    """Except for the signatures of the API page."""
    errors = []
    for path in documents:
        for block in parsed(path.read_text()) if path.name != "api.md" else ():
            if block.language == "python" and (error := prompt_error(block.text)):
                errors.append(f"{path.relative_to(root)}, line {block.line}: {error}")
    assert not errors, "\n".join(errors)


def test_the_prompt_refuses_what_python_refuses() -> None:
    assert prompt_error("with a:\n    b\n\nc\n") == ""
    assert prompt_error("with a:\n    b\n\n    c\n") == "unexpected indent: c"
    # Python 3.11.2 says that the input is incomplete.
    assert prompt_error("for a in b:\n    c\nd\n") in {"invalid syntax: d", "incomplete input: d"}
    assert prompt_error("a = (\n") == "it does not end: a = ("


def test_no_example_makes_a_folder_whose_name_others_can_guess(documents: Sequence[Path]) -> None:
    """The user who makes /tmp/something first decides what is in it, for the other users of the machine too."""
    for path in documents:
        for block in parsed(path.read_text()):
            assert "/tmp/" not in block.text, path


def test_version_is_the_newest_of_the_changelog(root: Path) -> None:
    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    headings = [text.split()[0] for text in re.findall(r"^## (.+)$", (root / "CHANGELOG.md").read_text(), re.MULTILINE)]
    released = [heading for heading in headings if heading.lower() != "unreleased"]
    assert released[0] == project["version"]


def test_each_extra_that_documents_and_messages_name_exists(
    root: Path, documents: Sequence[Path], python_files: Sequence[Path]
) -> None:
    extras = tomllib.loads((root / "pyproject.toml").read_text())["project"]["optional-dependencies"].keys()
    named = {
        extra
        for path in (*documents, *python_files)
        for names in re.findall(r"rowlock\[([a-z,]+)\]", path.read_text())
        for extra in names.split(",")
    }
    assert named == set(extras)


def test_python_versions_agree(root: Path) -> None:
    """Setup looks for the versions that pyproject.toml promises."""
    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    promised = re.findall(r"3\.\d+", " ".join(c for c in project["classifiers"] if "Python ::" in c))
    sought = re.findall(r"\(3, (\d+)\)", (root / ".ci" / "setup.py").read_text())
    assert promised == [f"3.{minor}" for minor in sought]


def test_tests_are_read_from_a_row() -> None:
    row = "| `x` was wrong | reading | `tests/a.py::test_1`, `::test_2`, `make memory`, `tests/b.py` |"
    assert list(named_tests(row)) == [("tests/a.py", "test_1"), ("tests/a.py", "test_2"), ("tests/b.py", "")]


def test_a_broken_link_is_found_and_one_in_a_code_block_is_not() -> None:
    assert list(links_of("see [a](x.md#part) and\n```\n[b](y.md)\n```\n[c](z.md)")) == ["x.md#part", "z.md"]
    assert anchor_of("3. What's in `it`") == "3-whats-in-it"
