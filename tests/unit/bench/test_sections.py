"""A run of the bench replaces its own section of a document, and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.sections import with_section, write_section

_TEXT = "before\n<!-- bench: a -->\nold\n<!-- end: a -->\nbetween\n<!-- bench: b -->\n<!-- end: b -->\nafter\n"


def test_only_the_named_section_is_replaced() -> None:
    expected = _TEXT.replace("\nold\n", "\n\nnew\n\n")
    assert with_section(_TEXT, "a", "\nnew\n") == expected
    assert with_section(expected, "a", "new") == expected


def test_a_document_keeps_its_other_text(tmp_path: Path) -> None:
    path = tmp_path / "page.md"
    path.write_text(_TEXT)
    write_section(path, "b", "| table |")
    assert path.read_text() == _TEXT.replace("b -->\n<!--", "b -->\n\n| table |\n\n<!--")


@pytest.mark.parametrize(
    "text",
    [
        "nothing",
        "<!-- bench: a -->\n",
        "<!-- end: a -->\n<!-- bench: a -->\n",
        "<!-- bench: a -->\n<!-- end: a -->\n" * 2,
    ],
)
def test_a_document_without_exactly_one_such_section_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="needs one line `<!-- bench: a -->`"):
        with_section(text, "a", "new")


@pytest.mark.parametrize(
    ("document", "section"),
    [("README.md", "hbase"), ("docs/growth.md", "growth by rows"), ("docs/growth.md", "growth by clients")],
)
def test_the_documents_have_the_sections_that_runs_write(document: str, section: str) -> None:
    text = (Path(__file__).parents[3] / document).read_text()
    assert "| a new table |" in with_section(text, section, "| a new table |")
