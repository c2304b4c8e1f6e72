"""The code blocks of the documentation, and how tests run them: one after another, as a reader who pastes them.

A block runs as it is printed, apart from the replacements that the test names: addresses and folders, which must not
be the reader's own.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType

import rowlock

ROOT = Path(__file__).parents[1]
# The address that the pages write.
ADDRESS = "127.0.0.1:7460"
_FENCE = re.compile(r"^```(\w*)[^\n]*\n(.*?)^```", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True, slots=True)
class Block:
    """One fenced block: its page, its language ("" for none), its text, and the number of its first line."""

    page: str
    language: str
    text: str
    line: int

    def with_text(self, old: str, new: str) -> Block:
        """Returns the block with one text in place of another, which it must contain."""
        assert old in self.text, f"{self.page}, line {self.line}: no {old!r}"
        return replace(self, text=self.text.replace(old, new))


def parsed(text: str, page: str = "") -> Iterator[Block]:
    """Yields the blocks of a page's text, in order."""
    for found in _FENCE.finditer(text):
        yield Block(page, found[1], found[2], text[: found.start(2)].count("\n") + 1)


def without_blocks(text: str) -> str:
    """Returns the text between the blocks."""
    return _FENCE.sub("", text)


def blocks_of(page: str, language: str = "python") -> list[Block]:
    """Returns the blocks of a page in one language, in order. page: its path in the project."""
    return [block for block in parsed((ROOT / page).read_text(), page) if block.language == language]


def block_of(page: str, holding: str, language: str = "python") -> Block:
    """Returns the only block of the page that holds a text."""
    [found] = [block for block in blocks_of(page, language) if holding in block.text]
    return found


class Paste:
    """Runs Python blocks in this process, in one namespace. A context manager: it closes the clients that they opened.

    replacements: texts of the blocks, and what stands in their place. names: the namespace.
    """

    def __init__(self, replacements: Mapping[str, str]) -> None:
        self.names: dict[str, object] = {"__name__": "pasted"}
        self._replacements = replacements
        self._clients: list[rowlock.Client] = []

    def __enter__(self) -> Paste:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for client in self._clients:
            client.close()

    def run(self, block: Block) -> None:
        """Runs a block. Its tracebacks have the page and the line."""
        text = block.text
        for old, new in self._replacements.items():
            text = text.replace(old, new)
        # Empty lines before it make the line numbers those of the page.
        code = compile("\n" * (block.line - 1) + text, block.page, "exec", dont_inherit=True)
        try:
            exec(code, self.names)
        finally:
            # After each block, because a later one may open another client under the same name.
            self._clients += [value for value in self.names.values() if isinstance(value, rowlock.Client)]


def paste_page(page: str, address: str) -> dict[str, object]:
    """Runs all Python blocks of a page with the server at an address. Returns the names that they have set."""
    blocks = blocks_of(page)
    assert any(ADDRESS in block.text for block in blocks), f"{page} names no server"
    with Paste({ADDRESS: address}) as paste:
        for block in blocks:
            paste.run(block)
        return paste.names
