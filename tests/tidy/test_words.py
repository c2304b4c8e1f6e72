"""Names and messages use the field's words, and none of those that only this project would understand.

Names are those that the shipped code, the benchmarks and the tools define or use: modules, functions, classes,
arguments, variables and attributes. They are split at underscores and capitals. Messages are string constants that are
not docstrings. Prose is read by people.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import pytest

_FOLDERS = ("client", "regionserver", "proto", "bench", "tools")

# In names and in messages, each with the word of the field. Several words in a row are one entry; plurals count too.
DIALECT: Mapping[str, str] = {
    "anew": "again",
    "asker": "responder, caller",
    "company": "batch, coalesced puts",
    "companion": "batch, coalesced puts",
    "door": "interface, listener",
    "give way": "yield",
    "gives way": "yields",
    "kept answer": "saved answer, idempotency table",
    "leap": "reserved block",
    "lone caller": "single caller",
    "long work": "background work",
    "read span": "protected read point",
    "row reached": "resume key",
    "set down": "release",
    "spare": "preallocated segment",
    "told": "outcome, notified, reported",
    "trimmer": "log cleaner",
    "whoever": "the thread, the caller",
}
# In names only: in a message for people these are plain English.
DIALECT_OF_NAMES: Mapping[str, str] = {
    "anybody": "any thread, any caller",
    "everybody": "all threads, all callers",
    "go on": "continue",
    "goes on": "continues",
    "let go": "release",
    "lets go": "releases",
    "nobody": "no thread, no caller",
    "somebody": "another thread, another caller",
    "tell": "notify, report",
}

# What stays in either, each with the reason.
EXCEPTIONS: Mapping[str, str] = {
    "stamp_leap_ms": "a setting",
    "write_numbers_per_leap": "a setting",
    "long_work_pause_percent": "a setting",
    "row_reached": "a field of rowlock.v1",
    "kept_answer_count": "a field of rowlock.v1 and of the client's RegionStatistics",
    "kept_answer_bytes": "a field of rowlock.v1 and of the client's RegionStatistics",
    "spare.wal": "a file in data folders",
}

_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_EXCEPTION = re.compile(rf"(?<![A-Za-z0-9_])(?:{'|'.join(map(re.escape, EXCEPTIONS))})(?![A-Za-z0-9_])")


def _pattern(dialect: Iterable[str]) -> re.Pattern[str]:
    return re.compile(rf"\b({'|'.join(dialect)})s?\b")


_IN_MESSAGES = _pattern(DIALECT)
_IN_NAMES = _pattern([*DIALECT, *DIALECT_OF_NAMES])


def dialect_in(text: str, *, is_name: bool = True) -> list[str]:
    """The dialect's entries that a name or a message contains, but for the EXCEPTIONS in it."""
    words = " ".join(_WORD.findall(_EXCEPTION.sub(" ", text))).lower()
    return (_IN_NAMES if is_name else _IN_MESSAGES).findall(words)


def names_in(node: ast.AST) -> Iterator[str]:
    """The names that the node itself defines or uses."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        yield node.name
    elif isinstance(node, ast.Name):
        yield node.id
    elif isinstance(node, ast.Attribute):
        yield f"{node.value.id}.{node.attr}" if isinstance(node.value, ast.Name) else node.attr
    elif isinstance(node, ast.arg):
        yield node.arg
    elif isinstance(node, ast.keyword):
        yield node.arg or ""
    elif isinstance(node, ast.alias):
        yield from (node.name, node.asname or "")
    elif isinstance(node, ast.ExceptHandler | ast.MatchAs | ast.MatchStar):
        yield node.name or ""


def messages_in(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """(line, text) of each string constant that is not a docstring; parts of f-strings are constants too."""
    docstrings = {id(docstring) for node in ast.walk(tree) for docstring in _docstring(node)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str | bytes) and id(node) not in docstrings:
            yield node.lineno, node.value if isinstance(node.value, str) else node.value.decode("latin-1")


def _docstring(node: ast.AST) -> Iterator[ast.expr]:
    if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and node.body:
        first = node.body[0]
        if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and isinstance(first.value.value, str):
            yield first.value


def findings(name: str, source: str) -> list[str]:
    """What is wrong in a module: in its file name (line 0), its names and its messages."""
    tree = ast.parse(source)
    found = {(0, word) for word in dialect_in(Path(name).stem)}
    for node in ast.walk(tree):
        line = getattr(node, "lineno", 0)
        found.update((line, word) for text in names_in(node) for word in dialect_in(text))
    for line, text in messages_in(tree):
        found.update((line, word) for word in dialect_in(text, is_name=False))
    better = {**DIALECT, **DIALECT_OF_NAMES}
    return [f"{name}:{line}: {word}: say {better[word]}" for line, word in sorted(found)]


@pytest.fixture(scope="module")
def sources(root: Path, python_files: Sequence[Path]) -> Mapping[str, str]:
    """The modules to judge, by path."""
    paths = [path for path in python_files if path.relative_to(root).parts[0] in _FOLDERS]
    return {str(path.relative_to(root)): path.read_text() for path in paths}


def test_names_and_messages_use_the_words_of_the_field(sources: Mapping[str, str]) -> None:
    assert sources
    found = [finding for name, source in sources.items() for finding in findings(name, source)]
    assert not found, "\n".join(found)


def test_each_exception_is_still_needed(sources: Mapping[str, str]) -> None:
    used = {match for source in sources.values() for match in _EXCEPTION.findall(source)}
    assert used == set(EXCEPTIONS)


SOURCE = '''
"""Whoever reads this docstring is told nothing."""
import company_of_puts
from engine import Asker as Responder
LEAPS = 3
class PutCompany:
    """A door."""
    def __init__(self, told, *, row_reached, long_work_pause_percent):
        """Nobody minds."""
        self._letGo = row_reached
        self.spare = open("log/spare.wal")
        door: int = 1
    async def tell(self, config, file):
        raise ValueError(f"whoever asks nobody at {config.stamp_leap_ms} is told")
def outdoors(toldest):
    "the companions of a docstring"
    try:
        call(long_work=file.read(), kept_answer_bytes=b"the kept answers")
    except KeyError as nobody:
        "a string that is no docstring, anew"
'''


def test_what_it_should_find_is_found_and_prose_and_exceptions_are_not() -> None:
    assert [finding.split(":")[1:3] for finding in findings("region/read_spans.py", SOURCE)] == [
        ["0", " read span"],
        ["3", " company"],
        ["4", " asker"],
        ["5", " leap"],
        ["6", " company"],
        ["8", " told"],
        ["10", " let go"],
        ["11", " spare"],
        ["12", " door"],
        ["13", " tell"],
        ["14", " told"],
        ["14", " whoever"],
        ["18", " kept answer"],
        ["18", " long work"],
        ["19", " nobody"],
        ["20", " anew"],
    ]
    assert findings("region/read_spans.py", "")[0].endswith(":0: read span: say protected read point")


def test_names_are_split_at_underscores_and_capitals() -> None:
    assert dialect_in("_KEPT_ANSWERS") == dialect_in("keptAnswers") == dialect_in("KeptAnswers") == ["kept answer"]
    assert dialect_in("HTTPDoor") == ["door"]
    assert dialect_in("outdoor_spared_companyless_retold") == []
    assert dialect_in("row_reached config.stamp_leap_ms") == []
    assert dialect_in("row_reached_now") == ["row reached"]
    assert dialect_in("nobody listens and the scan goes on", is_name=False) == []
