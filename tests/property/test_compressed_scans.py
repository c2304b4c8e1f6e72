"""Scans that take rows compressed return the rows that other scans return, as a client decodes them.

overlapping_sources.py has their typed rows.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from rowlock._codec.line_rows import LineReader
from rowlock._codec.row_form import FormColumn as ClientColumn
from rowlock._codec.row_form import RowFormReader
from rowlock._codec.scan_message import parse_scan_message
from rowlock._core.scan_progress import read_cells
from rowlock_proto.v1 import region_pb2
from rowlock_regionserver.engine.encoded_message import joined
from rowlock_regionserver.files import Files
from rowlock_regionserver.operations import FormPart, ScanPlan
from rowlock_regionserver.rpc.messages.scan_batches import scan_message
from rowlock_regionserver.scan.batches import ScanAnswer
from rowlock_regionserver.scan.compressed_rows import CompressedRows
from rowlock_regionserver.scan.unread_rows import UnreadRows
from rowlock_regionserver.storefile.open_files import OpenFiles

from tests.drawn_cases import case_count
from tests.property.overlapping_sources import World
from tests.seeds import drawn_seed
from tests.unit.compressed_rows import take_every_row_compressed
from tests.unit.messages_in_parts import send_every_table_in_parts
from tests.unit.unread_rows import leave_every_row_unread

CASES = case_count(60, 3)
Rows = list[tuple[object, ...]]


def rows_of(tables: Sequence[pa.Table]) -> Rows:
    return [row for table in tables for row in zip(*[column.to_pylist() for column in table.columns], strict=True)]


def received(answer: ScanAnswer, plan: ScanPlan) -> tuple[pa.Table, bytes]:
    """Returns the rows as a client reads them from the answer's message, and the resume key."""
    assert plan.row_form is not None
    columns = [
        ClientColumn(column.family, column.qualifier, column.part is FormPart.TIMESTAMP) for column in plan.row_form
    ]
    message = parse_scan_message(joined(scan_message(answer, 5)))
    table = RowFormReader.of(columns, region_pb2.ScanRequest()).read(message)
    table.validate(full=True)
    return table, message.row_reached


def test_compressed_rows_are_the_rows_of_other_scans(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    take_every_row_compressed(monkeypatch)
    send_every_table_in_parts(monkeypatch)
    seed = drawn_seed()
    seen: Counter[str] = Counter()
    for case in range(600):
        if case >= CASES and seen["compressed"] > CASES:
            break  # A few seeds draw few rows at first that can be answered compressed.
        chance = random.Random(f"{seed} {case}")
        folder = tmp_path / str(case)
        folder.mkdir()
        open_files = OpenFiles(Files())
        world = World(folder, chance, open_files)
        for number in range(4):
            where = f"seed {seed}, case {case}, plan {number}"
            plan = world.plan()
            window_bytes = chance.choice([300, 5000, 1 << 20])
            expected = rows_of([answer.table for answer in world.answers(plan, window_bytes)])
            answers = world.answers(replace(plan, compressed=True), window_bytes)
            seen["compressed"] += sum(isinstance(answer.rows, CompressedRows) for answer in answers)
            # Decompressed together, before a message has decompressed some of them.
            decompressed = world.answers(replace(plan, compressed=True), window_bytes)
            assert rows_of([answer.table for answer in decompressed]) == expected, where
            for answer in decompressed:
                answer.table.validate(full=True)
            assert rows_of([received(answer, plan)[0] for answer in answers]) == expected, where
            assert [answer.row_count for answer in answers] == [answer.table.num_rows for answer in answers], where
            without = replace(plan, compressed=True, without_keys=True)
            check_without_keys(world.answers(without, window_bytes), without, expected, where)
        world.view.clear()
        open_files.close_idle()
    assert seen["compressed"] > CASES, seen


def test_unread_rows_are_the_rows_of_other_scans(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a form, and as cells that a client makes of rows in columns."""
    seed = drawn_seed()
    seen: Counter[str] = Counter()
    table_of = UnreadRows.table

    def counted(self: UnreadRows) -> pa.Table:
        seen["unread"] += 1
        return table_of(self)

    monkeypatch.setattr(UnreadRows, "table", counted)
    for case in range(600):
        if case >= CASES and min(seen["in a form"], seen["as cells"]) > CASES:
            break  # A few seeds draw few rows at first that can stay unread.
        chance = random.Random(f"{seed} {case}")
        folder = tmp_path / str(case)
        folder.mkdir()
        open_files = OpenFiles(Files())
        world = World(folder, chance, open_files, plain=True)
        for number in range(4):
            where = f"seed {seed}, case {case}, plan {number}"
            plan = replace(world.plan(), row_limit=0, reverse=False)
            cells = replace(plan, row_form=None, fixed_size=False)
            window_bytes = chance.choice([300, 5000, 1 << 20])
            expected = rows_of([answer.table for answer in world.answers(plan, window_bytes)])
            expected_cells = rows_of([answer.table for answer in world.answers(cells, window_bytes)])
            with monkeypatch.context() as patched:
                leave_every_row_unread(patched)
                answers = world.answers(replace(plan, compressed=True), window_bytes)
                assert rows_of([received(answer, plan)[0] for answer in answers]) == expected, where
                seen["in a form"] = seen["unread"] - seen["as cells"]
                answers = world.answers(replace(cells, lines=True), window_bytes)
                seen["as cells"] = seen["unread"] - seen["in a form"]
            assert rows_of([received_cells(answer) for answer in answers]) == expected_cells, where
        world.view.clear()
        open_files.close_idle()
    assert min(seen["in a form"], seen["as cells"]) > CASES, seen


def received_cells(answer: ScanAnswer) -> pa.Table:
    """Returns the cells as a client makes them of the answer's message."""
    message = parse_scan_message(joined(scan_message(answer, 5)))
    cells = LineReader().read(message).cells() if message.line_columns else read_cells(message.arrow)
    cells.validate(full=True)
    return cells


def check_without_keys(answers: Sequence[ScanAnswer], plan: ScanPlan, expected: Rows, where: str) -> None:
    """Checks the values, and that each batch without keys says behind which row the scan resumes."""
    start = 0
    for answer in answers:
        table, resume_key = received(answer, plan)
        rows = expected[start : start + table.num_rows]
        assert [row[1:] for row in rows_of([table])] == [row[1:] for row in rows], where
        if table.column(0).null_count:
            start_of_next = expected[start + table.num_rows][0] if start + table.num_rows < len(expected) else b"\xff"
            assert isinstance(start_of_next, bytes)
            assert isinstance(rows[-1][0], bytes)
            assert rows[-1][0] < resume_key <= start_of_next, where
        start += table.num_rows
    assert start == len(expected), where
