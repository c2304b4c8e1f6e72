"""The bar of an import moves, and an interrupt says how far it came."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

import pyarrow as pa
import pytest
from rowlock import Mapping
from rowlock.bulk_outcome import BulkResult
from rowlock.cli import output
from rowlock.cli.transfer import importing
from rowlock.errors import BulkError, TableNotFoundError

from tests.unit.cli.recording import Console, RecordingClient

WORDS = ("-m", "id STRING :key, n INT f:n")


class WritingClient(RecordingClient):
    """A client whose put_arrow acknowledges each batch when it has taken the next but one."""

    def __init__(
        self,
        interrupted_after: int | None = None,
        *,
        interrupt: BaseException | type[BaseException] = KeyboardInterrupt,
    ) -> None:
        super().__init__()
        self.interrupted_after = interrupted_after
        self.interrupt = interrupt
        self.rows: list[str | None] = []

    def table(self, name: str, **options: object) -> RecordingClient:
        return self

    def put_arrow(self, rows: Iterable[pa.RecordBatch], *, on_progress: Callable[[int], None]) -> BulkResult:
        sizes: list[int] = []
        for batch in rows:
            sizes.append(batch.num_rows)
            self.rows += batch.column("id").to_pylist()
            on_progress(sum(sizes[:-1]))
            if self.interrupted_after is not None and len(sizes) > self.interrupted_after:
                raise self.interrupt
        on_progress(sum(sizes))
        return BulkResult(sum(sizes), sum(sizes))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Five rows that are a block each: the size of a batch."""
    path = tmp_path / "rows.csv"
    path.write_text("id,n\n" + "".join(f"r{number}{'x' * (1 << 20)},{number}\n" for number in range(5)))
    return path


def test_the_bar_of_a_small_file_moves_with_what_is_written(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    moves: list[int] = []

    class Recorded(output.Progress):
        def advance(self, count: int) -> None:
            moves.append(count)

    monkeypatch.setattr(output, "Progress", Recorded)
    client = WritingClient()
    console = Console(client)
    assert console.run("import", "t", str(file), *WORDS) == 0
    assert len(client.rows) == 5
    assert len(moves) >= 3
    assert sum(moves) == file.stat().st_size


@pytest.mark.parametrize("skipped", [0, 1])
def test_an_interrupt_says_how_many_rows_were_written_and_how_to_go_on(file: Path, skipped: int) -> None:
    client = WritingClient(interrupted_after=2)
    console = Console(client)
    assert console.run("import", "t", str(file), *WORDS, "--skip-rows", str(skipped)) == 130
    written = len(client.rows) - 1 + skipped
    assert console.err == (
        f"interrupted; the first {written} rows of {file} were written, and perhaps more. To go on, repeat the import "
        f"with --skip-rows {written}, or as it was: it writes the same rows again\n"
    )
    rest = WritingClient()
    assert Console(rest).run("import", "t", str(file), *WORDS, "--skip-rows", str(written)) == 0
    assert [(row or "")[:2] for row in client.rows[:-1] + rest.rows] == [f"r{number}" for number in range(skipped, 5)]
    # The next command has another one.
    console.client.answers["delete"] = KeyboardInterrupt()
    assert console.run("delete", "t", "r", "-m", "none") == 130
    assert "rows" not in console.err


def test_an_import_that_leaves_out_more_rows_than_there_are_is_an_error(file: Path) -> None:
    console = Console(WritingClient())
    assert console.run("import", "t", str(file), *WORDS, "--skip-rows", "6") == 2
    assert console.err == (
        f"rowlock: --skip-rows 6 leaves out more than there is: {file} has only 5 rows; nothing was written\n"
    )
    assert console.run("import", "t", str(file), *WORDS, "--skip-rows", "5") == 0


def test_no_such_table_is_an_error_before_the_file_is_read(tmp_path: Path) -> None:
    client = WritingClient()
    client.answers["kept_mapping"] = TableNotFoundError("there is no table 't'", table="t")
    console = Console(client)
    assert console.run("import", "t", str(tmp_path / "nosuch.csv"), *WORDS) == 2
    assert console.err == "rowlock: there is no table 't'\n"


def test_positions_follow_what_is_written() -> None:
    from rowlock.cli.transfer.batches import Content, Read

    mapping = Mapping("id STRING :key, n INT f:n")
    batch = pa.RecordBatch.from_pydict({"id": ["a", "b"], "n": [1, None]}, mapping.schema)
    reads = [Read(batch, position) for position in (10, 20, 30)]
    rows = importing.FileRows(Content(iter(reads), 30, "bytes"), "rows.csv", mapping)
    rows.progress = output.Progress()
    assert sum(each.num_rows for each in rows) == 6
    assert (rows.count, rows.without_cells) == (6, 3)
    for written, position in ((0, 0), (1, 0), (2, 10), (5, 20), (6, 30)):
        rows.written_to(written)
        assert rows.progress.reached == position


def test_an_import_whose_server_is_lost_says_which_rows_need_not_be_repeated(file: Path) -> None:
    lost = BulkError("rows 2 to 4 may or may not have been written: lost", table="t")
    client = WritingClient(interrupted_after=2, interrupt=lost)
    console = Console(client)
    assert console.run("import", "t", str(file), *WORDS) == 2
    written = len(client.rows) - 1
    assert console.err.endswith(
        f"To write all rows, repeat the import; it writes the same rows again; --skip-rows {written} leaves out what "
        "was written\n"
    )
