"""The suite catches each deliberately broken build: a test that passes on all of them proves nothing.

`make mutants` tries all of them. `make test` tries as many as ROWLOCK_BROKEN_BUILDS says, which the run's seed draws.
"""

from __future__ import annotations

import ast
import os
import shutil
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.seeds import generator_of

from .admission import ADMISSION
from .broken_build import (
    BROKEN_WAIT_S,
    PACKAGES,
    SERVER,
    Mutant,
    Verdict,
    broken_copy,
    changed,
    copy_of_packages,
    definitions_of,
    run_tests,
)
from .bulk_and_requests import BULK_AND_REQUESTS
from .bulk_connections import BULK_CONNECTIONS
from .bulk_rows import BULK_ROWS
from .bulk_writes import BULK_WRITE_MUTANTS
from .changes import CHANGES_MUTANTS
from .clipped import CLIPPED
from .column_puts import COLUMN_PUTS
from .compacting import COMPACTING_MUTANTS
from .compaction_queue import COMPACTION_QUEUE_MUTANTS
from .compressed import COMPRESSED
from .copied_changes import COPIED_CHANGES_MUTANTS
from .direct import DIRECT
from .direct_memory import DIRECT_MEMORY
from .direct_scans import DIRECT_SCANS
from .durability import DURABILITY
from .edges import EDGES
from .floods import FLOODS
from .folders import FOLDERS
from .growing_files import GROWING_FILES
from .keepalive import KEEPALIVE_MUTANTS
from .limits import LIMIT_MUTANTS
from .line_gets import LINE_GET_MUTANTS
from .lines import OF_LINES
from .locks import LOCK_MUTANTS
from .memory import MEMORY
from .named_snapshots import NAMED_SNAPSHOT_MUTANTS
from .opened_scans import OPENED_SCANS
from .pacing import PACING_BUILDS
from .picking import PICKING
from .procedures import PROCEDURES
from .reading import READING
from .recovery import RECOVERY
from .regions import REGION_MUTANTS
from .retention import RETENTION_MUTANTS
from .rows_and_files import ROWS_AND_FILES
from .scan_connections import SCAN_CONNECTIONS
from .sessions import SESSION_MUTANTS
from .short_scans import SHORT_SCANS
from .snapshots import SNAPSHOT_MUTANTS
from .splitting import SPLITTING_MUTANTS
from .stamps_and_answers import STAMPS_AND_ANSWERS
from .table_operations import TABLE_OPERATIONS
from .transfers import TRANSFER_MUTANTS
from .unread import UNREAD_ROWS
from .writing import WRITING
from .writing_role import WRITING_ROLE

MUTANTS = [
    *WRITING,
    *WRITING_ROLE,
    *TRANSFER_MUTANTS,
    *ADMISSION,
    *LIMIT_MUTANTS,
    *LINE_GET_MUTANTS,
    *LOCK_MUTANTS,
    *OF_LINES,
    *BULK_AND_REQUESTS,
    *BULK_CONNECTIONS,
    *PACING_BUILDS,
    *BULK_ROWS,
    *BULK_WRITE_MUTANTS,
    *CHANGES_MUTANTS,
    *CLIPPED,
    *COLUMN_PUTS,
    *OPENED_SCANS,
    *READING,
    *ROWS_AND_FILES,
    *COMPACTING_MUTANTS,
    *COMPRESSED,
    *UNREAD_ROWS,
    *COMPACTION_QUEUE_MUTANTS,
    *DIRECT,
    *DIRECT_MEMORY,
    *DIRECT_SCANS,
    *DURABILITY,
    *GROWING_FILES,
    *EDGES,
    *KEEPALIVE_MUTANTS,
    *FLOODS,
    *FOLDERS,
    *MEMORY,
    *PICKING,
    *RECOVERY,
    *TABLE_OPERATIONS,
    *REGION_MUTANTS,
    *SPLITTING_MUTANTS,
    *COPIED_CHANGES_MUTANTS,
    *RETENTION_MUTANTS,
    *SCAN_CONNECTIONS,
    *SESSION_MUTANTS,
    *SHORT_SCANS,
    *SNAPSHOT_MUTANTS,
    *NAMED_SNAPSHOT_MUTANTS,
    *STAMPS_AND_ANSWERS,
    *PROCEDURES,
]
RUNS_AT_ONCE = 2
# Of how many files tests run on the unchanged build, if only some broken builds are tried.
UNCHANGED_FILES = 12
DRAWN = generator_of("broken builds").sample(MUTANTS, int(os.environ.get("ROWLOCK_BROKEN_BUILDS") or len(MUTANTS)))


@pytest.fixture(scope="session")
def unchanged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with copies of the unchanged packages."""
    return copy_of_packages(tmp_path_factory.mktemp("unchanged"))


@pytest.fixture(scope="session")
def verdicts(
    request: pytest.FixtureRequest, unchanged: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Mapping[str, Future[Verdict]]]:
    """Verdicts of the selected broken builds, by name. The builds run in the background, a few at once."""

    def verdict_of(mutant: Mutant) -> Verdict:
        folder = tmp_path_factory.mktemp("broken")
        verdict = run_tests(broken_copy(unchanged, folder, mutant), [mutant.caught_by], mutant.package, BROKEN_WAIT_S)
        shutil.rmtree(folder)
        return verdict

    selected: list[Mutant] = [
        item.callspec.params["mutant"]  # type: ignore[misc]  # our own parameter
        for item in request.session.items
        if isinstance(item, pytest.Function) and item.originalname == test_a_broken_build_is_caught.__name__
    ]
    for package in PACKAGES:
        definitions_of(package)  # Here, because Python 3.11 must not parse in two threads at once (SystemError).
    with ThreadPoolExecutor(RUNS_AT_ONCE) as pool:
        yield {mutant.name: pool.submit(verdict_of, mutant) for mutant in selected}
        pool.shutdown(cancel_futures=True)


@pytest.mark.parametrize("mutant", DRAWN, ids=lambda mutant: mutant.name.replace(" ", "-"))
def test_a_broken_build_is_caught(mutant: Mutant, verdicts: Mapping[str, Future[Verdict]]) -> None:
    verdict = verdicts[mutant.name].result()
    assert verdict.imported_from.name == mutant.package
    assert "broken" in verdict.imported_from.parent.name, "the tests ran on another copy"
    assert verdict.failed, f"{mutant.caught_by} did not catch it, {verdict.exit_code}:\n{verdict.report}"


def test_tests_of_each_file_pass_on_the_unchanged_build(unchanged: Path) -> None:
    """Otherwise they might fail on broken builds only because they run on a copy."""
    of_each_file = {mutant.caught_by.partition("::")[0]: mutant.caught_by for mutant in DRAWN}
    tried = list(of_each_file.values()) if len(DRAWN) == len(MUTANTS) else list(of_each_file.values())[:UNCHANGED_FILES]
    verdict = run_tests(unchanged, tried)
    assert (verdict.failed, verdict.exit_code) == ("", pytest.ExitCode.OK), verdict.report
    assert verdict.imported_from == unchanged / SERVER


def test_tests_of_broken_builds_do_not_wait_long_for_what_never_happens(unchanged: Path) -> None:
    verdict = run_tests(unchanged, ["unit/test_waiting.py"], wait_s=BROKEN_WAIT_S)
    assert (verdict.failed, verdict.exit_code) == ("", pytest.ExitCode.OK), verdict.report


def test_each_broken_build_changes_one_passage_and_is_still_python() -> None:
    """At once, and of all together: else each is found after minutes, one by one."""
    for mutant in MUTANTS:
        _, source = changed(mutant)
        ast.parse(source)


def test_the_names_of_broken_builds_are_unique() -> None:
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS)
