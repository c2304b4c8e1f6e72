"""Every page of the documentation with Python in it works when it is pasted, block after block, on an empty folder.

Recipes can be run again.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import rowlock
from rowlock.pytest_plugin import RowlockServer

from tests.pages import ROOT, blocks_of, paste_page

_RECIPES = ROOT / "docs" / "recipes"
# They have tests of their own, because they need more than a server, or are no program.
_ELSEWHERE = {
    "docs/api.md",  # signatures: tests/tidy/test_api_reference.py
    "docs/client.md",  # needs the README's tour: test_client_page.py
    "docs/operating.md",  # test_server_log.py
    "docs/procedures.md",  # test_procedure_pages.py
    "docs/recipes/feature_store.md",  # tests/spark/test_docs.py
    "docs/recipes/sliding_window.md",  # test_procedure_pages.py
    "docs/spark.md",  # tests/spark/test_docs.py
}
_PAGES = [
    path.relative_to(ROOT).as_posix() for folder in ("docs", "docs/recipes") for path in (ROOT / folder).glob("*.md")
]
PAGES = sorted(page for page in _PAGES if page not in _ELSEWHERE and blocks_of(page))


def test_all_recipes_are_listed_and_most_are_programs() -> None:
    listed = set(re.findall(r"^\| \[[^]]+\]\((\w+\.md)\)", (_RECIPES / "README.md").read_text(), re.MULTILINE))
    assert listed == {path.name for path in _RECIPES.glob("*.md")} - {"README.md"}
    programs = {Path(page).name for page in (*PAGES, *_ELSEWHERE) if "recipes" in page}
    assert listed - programs == {"when_not.md"}


@pytest.mark.parametrize("page", PAGES)
def test_the_page_works_when_it_is_pasted(
    rowlock_server: RowlockServer, rowlock_client: rowlock.Client, page: str
) -> None:
    paste_page(page, rowlock_server.address)
    if "recipes" in page:
        assert rowlock_client.tables() == []
        paste_page(page, rowlock_server.address)
    else:
        assert rowlock_client.tables()
