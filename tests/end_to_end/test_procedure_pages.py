"""The pages with a procedure work when they are followed: its package is installed, and the client's blocks are run."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from tests.pages import blocks_of, paste_page
from tests.procedure_packages import write_package

from .procedure_server import server_with

PAGES = ["docs/procedures.md", "docs/recipes/sliding_window.md"]


@pytest.mark.parametrize("page", PAGES)
def test_the_page_works_when_it_is_followed(tmp_path: Path, page: str) -> None:
    (project,) = [tomllib.loads(block.text)["project"] for block in blocks_of(page, "toml")]
    (source,) = [block.text for block in blocks_of(page) if block.text.startswith("# our_")]
    points = project["entry-points"]["rowlock.procedures"]
    module = source.splitlines()[0].removeprefix("# ").removesuffix(".py")
    packages = write_package(tmp_path / "packages", module, source, points)
    with server_with(packages, list(points), tmp_path) as server:
        paste_page(page, server.address)
        if "recipes" in page:
            paste_page(page, server.address)
