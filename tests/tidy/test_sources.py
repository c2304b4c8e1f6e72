"""What a source file may not contain: too many lines, notes of work to be done, prints, banned words, machine paths."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from tests.tidy.test_layers import imports_of

_LINES_MAX = 400
# Tests are lists, and so are the modules of tests/crash: of system calls that fail.
_TEST_LINES_MAX = 600
# Longer modules, each with the reason why it is not split.
_LONGER: Mapping[str, str] = {}

_SHIPPED = ("client", "regionserver", "proto")
_VAGUE_NAMES = {"utils", "helpers", "common", "manager", "base", "util", "helper", "misc"}

# Second words for one thing (those of names and messages are in test_words.py). Brackets keep this file from itself.
_SECOND_WORDS = ["mem[t]able", "ss[t]able", "h[f]ile", "commit[ _-]lo[g]", "sequence[ _-]i[d]", "transaction[ _-]i[d]"]
# Paths of the machine that builds the project, and addresses of package registries.
_MACHINE = [
    "/wor[k]/",
    "/roo[t]/",
    "/hom[e]/[a-z]",
    "/User[s]/",
    r"pyp[i]\.",
    "pythonhoste[d]",
    "index-ur[l]",
    "artifactor[y]",
]
_UNFINISHED = ["TOD[O]", "FIXM[E]", "XX[X]", "HAC[K]"]
_TEXT = {".py", ".pyi", ".md", ".toml", ".proto", ".lock", ".sh", ".yml", ".yaml", ".cfg", ".txt", ".json", ""}


def _lines_with(pattern: re.Pattern[str], text: str) -> Iterator[tuple[int, str]]:
    for number, line in enumerate(text.splitlines(), start=1):
        if found := pattern.search(line):
            yield number, found.group()


def _findings(root: Path, files: Sequence[Path], patterns: Sequence[str], *, flags: int = 0) -> list[str]:
    pattern = re.compile("|".join(patterns), flags)
    return [
        f"{path.relative_to(root)}:{number}: {found}"
        for path in files
        if path.suffix in _TEXT
        for number, found in _lines_with(pattern, path.read_text())
    ]


def _lines_max(path: Path) -> int:
    return _TEST_LINES_MAX if path.name.startswith("test_") or path.parent.name == "crash" else _LINES_MAX


def test_modules_are_short_or_have_a_reason(root: Path, python_files: Sequence[Path]) -> None:
    assert len(python_files) > 20
    too_long = [
        f"{name} has {lines} lines: split it, or give the reason in _LONGER"
        for path in python_files
        if (lines := len(path.read_text().splitlines())) > _lines_max(path)
        and (name := str(path.relative_to(root))) not in _LONGER
    ]
    assert not too_long, "\n".join(too_long)


def test_reasons_for_long_modules_are_still_needed(root: Path) -> None:
    for name in _LONGER:
        assert len((root / name).read_text().splitlines()) > _LINES_MAX, f"{name} needs no reason any more"


def test_modules_say_their_idea_in_the_first_line(root: Path, python_files: Sequence[Path]) -> None:
    silent = []
    for path in python_files:
        if path.stem.startswith("test_") or path.stem == "conftest":
            continue  # Its name and its tests' names say what it is about.
        text = path.read_text()
        docstring = ast.get_docstring(ast.parse(text))
        if text.strip() and not (docstring and docstring.splitlines()[0].strip()):
            silent.append(str(path.relative_to(root)))
    assert not silent, f"no docstring in {', '.join(silent)}"


def test_no_module_has_a_name_without_an_idea(root: Path, python_files: Sequence[Path]) -> None:
    vague = [str(path.relative_to(root)) for path in python_files if path.stem in _VAGUE_NAMES]
    assert not vague, vague


def test_nothing_is_left_unfinished(root: Path, committed_files: Sequence[Path]) -> None:
    found = _findings(
        root, [path for path in committed_files if path.suffix != ".lock"], [rf"\b{w}\b" for w in _UNFINISHED]
    )
    assert not found, "\n".join(found)


def test_there_is_one_word_for_each_thing(root: Path, committed_files: Sequence[Path]) -> None:
    found = _findings(root, committed_files, _SECOND_WORDS, flags=re.IGNORECASE)
    assert not found, "\n".join(found)


def test_no_path_of_a_machine_and_no_registry_is_named(root: Path, committed_files: Sequence[Path]) -> None:
    found = _findings(root, committed_files, _MACHINE)
    assert not found, "\n".join(found)


def test_shipped_code_prints_nothing_by_hand(root: Path, python_files: Sequence[Path]) -> None:
    # Only a __main__ prints on standard output.
    shipped = [
        path for path in python_files if path.relative_to(root).parts[0] in _SHIPPED and path.name != "__main__.py"
    ]
    assert shipped
    found = []
    for path in shipped:
        for node in ast.walk(ast.parse(path.read_text())):
            if (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Name)
                and node.func.id in ("print", "breakpoint")
            ):
                found.append(f"{path.relative_to(root)}:{node.lineno}: {node.func.id}")
    assert not found, "\n".join(found)


def test_shipped_code_unpickles_and_evaluates_nothing(root: Path, python_files: Sequence[Path]) -> None:
    found = []
    for path in python_files:
        if path.relative_to(root).parts[0] not in _SHIPPED:
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("eval", "exec"):
                found.append(f"{path.relative_to(root)}:{node.lineno}: {node.func.id}")
            if isinstance(node, ast.Import) and any(
                alias.name in ("pickle", "marshal", "shelve") for alias in node.names
            ):
                found.append(f"{path.relative_to(root)}:{node.lineno}: {node.names[0].name}")
    assert not found, "\n".join(found)


def test_the_server_calls_nothing_of_arrow_that_imports_pandas(root: Path, python_files: Sequence[Path]) -> None:
    """The first such call takes 0.4 to 1.4 s and 120 MB if pandas is installed, and may be made while writes wait."""
    wrong = []
    for path in python_files:
        if not path.is_relative_to(root / "regionserver") or "inspection" in path.parts:
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                name = ast.unparse(node.func)
                if name in ("pa.array", "pa.scalar") or node.func.attr in ("empty_table", "to_numpy", "to_pandas"):
                    wrong.append(f"{path.relative_to(root)}:{node.lineno} calls {name}")
    assert not wrong, "\n".join(wrong)


def test_the_server_imports_nothing_slow_or_large(root: Path, python_files: Sequence[Path]) -> None:
    """`pa.array` on Python objects imports pandas if it is installed: 1.4 s and 120 MB before the server is ready."""
    wrong = []
    for path in python_files:
        if not path.is_relative_to(root / "regionserver") or "inspection" in path.parts:
            continue
        for name in imports_of(path.read_text(), ""):
            if name.split(".")[0] == "pandas" or name in ("pyarrow.dataset", "pyarrow.parquet"):
                wrong.append(f"{path.relative_to(root)} imports {name}")
    assert not wrong, "\n".join(wrong)
