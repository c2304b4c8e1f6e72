"""Sections of documents that a run of the bench writes: what stands between two comments with a name."""

from __future__ import annotations

from pathlib import Path


def with_section(text: str, name: str, content: str) -> str:
    """Returns the text with new content between `<!-- bench: NAME -->` and `<!-- end: NAME -->`.

    Raises ValueError if the text does not have each of the two lines once, in this order.
    """
    begin, end = f"<!-- bench: {name} -->\n", f"<!-- end: {name} -->"
    if text.count(begin) != 1 or text.count(end) != 1 or text.index(end) < text.index(begin):
        raise ValueError(f"the text needs one line `{begin.strip()}`, and after it one `{end}`")
    before, _, rest = text.partition(begin)
    after = rest.partition(end)[2]
    return f"{before}{begin}\n{content.strip()}\n\n{end}{after}"


def write_section(path: Path, name: str, content: str) -> None:
    """Replaces a section of a document. Raises ValueError if it has none of this name."""
    path.write_text(with_section(path.read_text(), name, content))
