"""One client that writes and reads its slice of the table, beside the model of the slice."""

from __future__ import annotations

import random
import time
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence

import pyarrow as pa
import rowlock

from tests.soak.bulk_writes import BulkWrites
from tests.soak.drawn_cells import QUALIFIERS, CellDraw, DrawnCell, apply, arrow_of
from tests.soak.held_reads import HeldRead, HeldScanOfSnapshot, HeldSnapshot, OpenedRead, scan_of_one_region
from tests.soak.model import UNKNOWN, VERSIONS, Read, SliceModel, differences, row_differences, rows_of
from tests.soak.report import Get

MAPPING = "id STRING :key, a INT {0}:a text, b STRING {0}:b, c STRING {0}:c"
_HELD_KINDS: Sequence[OpenedRead] = (HeldSnapshot, HeldScanOfSnapshot, scan_of_one_region)
_HELD_MAX = 4
_REPLACED_ROWS_MAX = 30
_HELD_SECONDS_MAX = 20.0


class Writer:
    """Makes random changes and judges random answers. Used by one thread."""

    def __init__(
        self, client: rowlock.Client, table: str, number: int, row_count: int, time_to_live_ms: int, seed: int
    ) -> None:
        self._name = table
        self.use(client)
        self._time_to_live_ms = time_to_live_ms
        self._random = random.Random(f"{seed} {number}")
        self._draw = CellDraw(self._random, time_to_live_ms)
        self.prefix = b"%02d-" % number
        self.rows = [b"%s%05d" % (self.prefix, place) for place in range(row_count)]
        self.model = SliceModel()
        self.has_extra_family = False
        self.bulk_writes = BulkWrites(
            f"writer {number}",
            table,
            self.rows,
            self.model,
            self._judge_bulk_write,
            self._draw,
            self._random,
            replaced_rows_max=_REPLACED_ROWS_MAX,
        )
        self._held: deque[HeldRead] = deque()
        # For the report, read by other threads.
        self.counts: Counter[str] = Counter()
        self.problems: list[str] = []
        self.gets: list[Get] = []
        self.quiet_gets: list[Get] = []
        self._actions: Sequence[tuple[int, Callable[[], None]]] = (
            (20, self._put),
            (8, self._put_version),
            (8, self._put_expiring),
            (8, self._delete),
            (5, self._delete_version),
            (8, self._increment),
            (4, self._append),
            (8, self._check_and_put),
            (3, self._create_or_update),
            (8, self._mutate_row),
            (4, self._batch),
            (2, self._bulk_cells),
            (2, self._bulk_rows),
            (2, self._bulk_write),
            (6, self._scan_range),
            (1, self._scan_all),
            (2, self._hold),
            (3, self._release),
        )

    def use(self, client: rowlock.Client) -> None:
        """Continues with another connection."""
        self._client = client
        self._table = client.table(self._name)
        self._quiet = client.table(f"{self._name}-quiet")

    def fill(self) -> None:
        """Puts about as many cells into every row as it has after long, by bulk loads."""
        for start in range(0, len(self.rows), 500):
            rows = self.rows[start : start + 500]
            self._load_rows(rows, b"t")
            for family in (b"f:", b"g:"):
                self._load_cells([self._draw.cell(row, family + qualifier) for row in rows for qualifier in QUALIFIERS])

    @property
    def bytes_written(self) -> int:
        return self._draw.bytes_drawn

    def turn(self) -> None:
        """Makes one random change or read, and then a timed get."""
        weights = [weight for weight, _ in self._actions]
        _, action = self._random.choices(self._actions, weights)[0]
        action()
        self.counts[action.__name__.strip("_").replace("_", " ")] += 1
        self._timed_get()

    def finish(self) -> None:
        """Judges all that is held."""
        while self._held:
            self._judge_held(self._held.popleft())

    # ---- values

    def _row(self) -> bytes:
        return self._random.choice(self.rows)

    def _plain_family(self) -> bytes:
        return self._random.choice([b"f", b"f", b"f", b"x" if self.has_extra_family else b"f", b"t"])

    # ---- changes

    def _put(self) -> None:
        row, family = self._row(), self._plain_family()
        data = {self._draw.column(family): self._draw.value() for _ in range(self._random.randint(1, 3))}
        self._table.put(row, data)
        self._put_in_model(row, data)

    def _put_version(self, family: bytes = b"g") -> None:
        row, timestamp = self._row(), self._draw.timestamp(family)
        data = {self._draw.column(family): self._draw.value() for _ in range(self._random.randint(1, 3))}
        self._table.put(row, data, timestamp=timestamp)
        self._put_in_model(row, data, timestamp)

    def _put_expiring(self) -> None:
        self._put_version(b"e")

    def _put_in_model(self, row: bytes, data: Mapping[bytes, bytes], timestamp: int = UNKNOWN) -> None:
        for column, value in data.items():
            self.model.put(row, column, value, timestamp)

    def _delete(self) -> None:
        row, family = self._row(), self._random.choice([b"f", b"g", b"e", b"t"])
        target = self._random.choice([None, family, self._draw.column(family), self._draw.column(family)])
        timestamp = None
        if family in (b"g", b"e") and target is not None and self._random.random() < 0.7:
            timestamp = self._draw.timestamp(family)
        self._table.delete(row, None if target is None else [target], timestamp=timestamp)
        self.model.delete(row, target, timestamp)

    def _delete_version(self) -> None:
        row, family = self._row(), self._random.choice([b"f", b"g", b"g", b"e"])
        column, timestamp = self._draw.column(family), None
        versions = self.model.value_versions(row, column)
        if family == b"e" and not versions:
            return
        if family == b"e" or (family == b"g" and self._random.random() < 0.7):
            timestamp = self._random.choice(versions)[0] if versions else self._draw.timestamp(family)
        self._table.delete(row, [column], timestamp=timestamp, exact=True)
        self.model.delete_version(row, column, timestamp)

    def _increment(self) -> None:
        row, amount = self._row(), self._random.randint(-3, 9)
        self._expect("an increment", self._table.increment(row, b"f:n", amount), self._counted(row, amount))

    def _counted(self, row: bytes, amount: int) -> int:
        before = self.model.value(row, b"f:n")
        number = amount + (int.from_bytes(before, "big", signed=True) if before else 0)
        self.model.put(row, b"f:n", number.to_bytes(8, "big", signed=True))
        return number

    def _append(self) -> None:
        row, suffix = self._row(), self._random.randbytes(8)
        before = self.model.value(row, b"f:s") or b""
        if len(before) > 200:
            self._table.delete(row, [b"f:s"])
            self.model.delete(row, b"f:s")
            before = b""
        self._expect("an append", self._table.append(row, b"f:s", suffix), before + suffix)
        self.model.put(row, b"f:s", before + suffix)

    def _check_and_put(self) -> None:
        row, column = self._row(), self._draw.column(b"f")
        stored = self.model.value(row, column)
        expected = stored if self._random.random() < 0.7 else b"no such value"
        data = {column: self._draw.value()} if self._random.random() < 0.8 else None
        if data is None:
            result = self._table.check_and_delete(row, column, expected, [column])
        else:
            result = self._table.check_and_put(row, column, expected, data)
        self._expect("a check", (result.applied, result.current), (expected == stored, stored))
        if expected != stored:
            return
        if data is None:
            self.model.delete(row, column)
        else:
            self._put_in_model(row, data)

    def _create_or_update(self) -> None:
        """Leaves alone rows of which a cell may expire at this moment."""
        row, data = self._row(), {self._draw.column(b"f"): self._draw.value()}
        columns = self.model.rows.get(row, {})
        if any(column.startswith(b"e:") for column in columns):
            return
        if self._random.random() < 0.5:
            is_done, is_expected = self._table.create(row, data), not columns
        else:
            is_done, is_expected = self._table.update(row, data), bool(columns)
        self._expect("a create or update", is_done, is_expected)
        if is_expected:
            self._put_in_model(row, data)

    def _mutate_row(self) -> None:
        """Changes all families in one step."""
        row, amount = self._row(), self._random.randint(1, 5)
        stamps = {family: self._draw.timestamp(family) for family in (b"g", b"e")}
        deleted = self._random.choice([b"f:a", b"g:a", b"t:a", b"t"])
        changes: list[rowlock.changes.Change] = [rowlock.Delete(deleted), rowlock.Increment(b"f:n", amount)]
        self.model.delete(row, deleted)
        for column in (b"f:b", b"g:b", b"e:b"):
            value, timestamp = self._draw.value(), stamps.get(column[:1], UNKNOWN)
            changes.append(rowlock.Put(column, value, None if timestamp == UNKNOWN else timestamp))
            self.model.put(row, column, value, timestamp)
        number = self._counted(row, amount)
        self._expect("a row's change", self._table.mutate_row(row, changes)[1], number)

    def _batch(self) -> None:
        with self._table.batch() as batch:
            for row in self._random.sample(self.rows, 40):
                if self._random.random() < 0.2:
                    batch.delete(row, [b"f:c"])
                    self.model.delete(row, b"f:c")
                else:
                    data = {self._draw.column(b"f"): self._draw.value()}
                    batch.put(row, data)
                    self._put_in_model(row, data)

    def _bulk_rows(self) -> None:
        rows = self._random.sample(self.rows, min(len(self.rows), 200))
        self._load_rows(rows, self._random.choice([b"t", b"t", b"g", b"e"]))

    def _load_rows(self, rows: Sequence[bytes], family: bytes) -> None:
        """Loads typed rows, which stay in columns."""
        numbers = [self._random.choice([None, self._random.randrange(1_000_000)]) for _ in rows]
        texts = [[self._random.choice([None, self._draw.value().hex()[:80]]) for _ in rows] for _ in "bc"]
        data = pa.table({"id": [row.decode() for row in rows], "a": numbers, "b": texts[0], "c": texts[1]})
        timestamp = UNKNOWN if family == b"t" else self._draw.timestamp(family)
        given = None if timestamp == UNKNOWN else timestamp
        self._table.put_arrow(data, MAPPING.format(family.decode()), timestamp=given)
        for row, number, *both in zip(rows, numbers, *texts, strict=True):
            if number is not None:
                self.model.put(row, family + b":a", b"%d" % number, timestamp)
            for qualifier, text in zip(b"bc", both, strict=True):
                if text is not None:
                    self.model.put(row, b"%s:%c" % (family, qualifier), text.encode(), timestamp)

    def _bulk_cells(self) -> None:
        """Loads cells, of which null values delete."""
        family = self._random.choice([b"f", b"g", b"e"])
        rows = self._random.sample(self.rows, min(len(self.rows), 100))
        self._load_cells([self._draw.cell(row, self._draw.column(family), 0.2) for row in rows])

    def _load_cells(self, cells: Sequence[DrawnCell]) -> None:
        self._table.put_arrow(arrow_of(cells))
        apply(cells, self.model)

    def _bulk_write(self) -> None:
        """Changes many rows of the slice at one moment, or doesn't."""
        self.bulk_writes.write(self._client)

    def _judge_bulk_write(self, what: str, bounds: tuple[bytes, bytes]) -> None:
        self.scan(bounds, what=f"{what}: ")

    # ---- reads

    def _timed_get(self) -> None:
        """Reads a row of the table, and one of a table that nobody writes."""
        row = self._row()
        first_ms, began = _now_ms(), time.perf_counter()
        found = self._table.row(row, include_timestamp=True)
        seconds = time.perf_counter() - began
        read = self._read(first_ms)
        self.gets.append(Get(time.monotonic(), seconds, len(found)))
        answer = {
            column: ((UNKNOWN if VERSIONS[column[:1]] == 1 else timestamp, value),)
            for column, (value, timestamp) in found.items()
        }
        expected = {column: versions[:1] for column, versions in self.model.rows.get(row, {}).items()}
        self._add_problems("a get", row_differences(row, expected, answer, read))
        began = time.perf_counter()
        quiet_row = self._quiet.row(b"row")
        self.quiet_gets.append(Get(time.monotonic(), time.perf_counter() - began, len(quiet_row)))

    def _scan_range(self) -> None:
        first, last = sorted(self._random.choices(range(len(self.rows)), k=2))
        last = min(last, first + 40)
        self.scan((self.rows[first], self.rows[last]), reverse=self._random.random() < 0.5)

    def _scan_all(self) -> None:
        self.scan((self.prefix, self.prefix + b"\xff"), reverse=self._random.random() < 0.5)

    def scan(self, bounds: tuple[bytes, bytes], *, reverse: bool = False, what: str = "") -> None:
        """Reads all versions of a range and judges them."""
        first_ms = _now_ms()
        with self._table.scan(*bounds, versions=3, reverse=reverse, strict=True) as scan:
            found = list(rows_of(scan.cells()))
        read = self._read(first_ms)
        problems = differences(self.model.rows, found, read, bounds=bounds, reverse=reverse)
        self._add_problems(f"{what}a scan {'backwards ' if reverse else ''}of {bounds}", problems)
        self.counts["rows scanned and compared"] += len(found)

    def _hold(self) -> None:
        """Opens a snapshot or a scan that is read later."""
        if len(self._held) >= _HELD_MAX:
            return
        bounds = (self.prefix, self.prefix + b"\xff")
        until = time.monotonic() + self._random.uniform(1, _HELD_SECONDS_MAX)
        first_ms = _now_ms()
        reverse = self._random.random() < 0.5
        opened = self._random.choice(_HELD_KINDS)
        held = opened(
            self._client, self._table, bounds, reverse, until, self.model.moment(), lambda: self._read(first_ms)
        )
        if held is not None:
            self._held.append(held)

    def _release(self) -> None:
        """Judges the held reads that are due, and reads the others a little further."""
        for _ in range(len(self._held)):
            held = self._held.popleft()
            if time.monotonic() >= held.until:
                self._judge_held(held)
            else:
                held.advance(self._random.randint(1, 30))
                self._held.append(held)

    def _judge_held(self, held: HeldRead) -> None:
        self._add_problems(held.name, held.finish())
        self.counts[f"{held.name}s read late"] += 1

    def _read(self, first_ms: int) -> Read:
        return Read(first_ms, _now_ms(), self._time_to_live_ms)

    def _expect(self, what: str, found: object, expected: object) -> None:
        if found != expected:
            self._add_problems(what, [f"answered {found!r}, expected {expected!r}"])

    def _add_problems(self, what: str, problems: Sequence[str]) -> None:
        self.problems += [f"{what}: {problem}" for problem in problems]


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
