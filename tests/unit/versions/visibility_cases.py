"""What a read sees, case by case: HBase's truth table and rowlock's answers, written by hand.

The notation is that of the recording of HBase 2.6.4: one row, one family; `put q=a@100` writes value `a` at timestamp
100; `delv q@t` deletes the version at t, `delc q@t` all versions up to t, `delf@t` and `delrow@t` a family's. Changes
are parted by `;` and get the write numbers 1, 2, 3, ...; those inside `rm[...]`, one atomic mutation, share one.
Changes without an explicit timestamp are written here with the timestamp that the server stamped, so "in one
millisecond" is "with equal timestamps". An answer lists the visible versions in store order: of column q the values,
of others `column=value`; `-` is nothing.

A case names HBase's answer only where rowlock departs from it on purpose (the design, section 6): a tombstone hides
only what was written before it, of several changes in one mutation the later wins, what the versions limit dropped
never comes back, and no answer depends on what has been flushed or compacted ("or" parts HBase's answers before and
after that).
"""

from __future__ import annotations

from dataclasses import dataclass

from rowlock_regionserver.cells import (
    DELETE_COLUMN,
    DELETE_FAMILY,
    DELETE_VERSION,
    NEWEST,
    PUT,
    Cell,
    Family,
    ReadPoint,
)

_KINDS = {"put": PUT, "delv": DELETE_VERSION, "delc": DELETE_COLUMN, "delf": DELETE_FAMILY, "delrow": DELETE_FAMILY}


@dataclass(frozen=True, slots=True)
class Case:
    name: str
    changes: str
    answer: str
    hbase: str | None = None  # where it is another
    versions: int = 3
    min_versions: int = 0
    time_to_live_ms: int = 0
    now_ms: int = 1000
    read_point: int = NEWEST

    @property
    def family(self) -> Family:
        return Family(
            1, b"f", versions=self.versions, min_versions=self.min_versions, time_to_live_ms=self.time_to_live_ms
        )

    @property
    def moment(self) -> ReadPoint:
        return ReadPoint(self.read_point, self.now_ms)

    def cells(self) -> list[Cell]:
        """Returns the row's cells in store order."""
        cells: list[Cell] = []
        for write_number, mutation in enumerate(self.changes.split(";"), start=1):
            atomic = mutation.strip().removeprefix("rm[").removesuffix("]")
            cells += [_cell(change.strip(), write_number) for change in atomic.split(",")]
        return sorted(cells)


def _cell(change: str, write_number: int) -> Cell:
    """Returns the cell of one change, such as `put q=a@100` or `delf@200`."""
    what, at, timestamp = change.partition("@")
    assert at, f"{change!r} has no timestamp"
    verb, _, column = what.partition(" ")
    qualifier, _, value = column.partition("=")
    return (qualifier.encode(), -int(timestamp), -write_number, _KINDS[verb], value.encode())


def answer_of(visible: list[Cell]) -> str:
    """Returns visible cells in the notation of the cases."""
    shown = [cell[4].decode() if cell[0] == b"q" else f"{cell[0].decode()}={cell[4].decode()}" for cell in visible]
    return " ".join(shown) or "-"


VERSIONS = [
    Case("timestamp, not arrival, decides", "put q=new@100; put q=old@50", "new", versions=1),
    Case("an older timestamp that arrives later is an older version", "put q=new@100; put q=old@50", "new old"),
    Case("of equal timestamps the later write is seen", "put q=a@100; put q=b@100", "b"),
    Case("of equal timestamps the later write is seen, one version", "put q=a@100; put q=b@100", "b", versions=1),
    Case("one mutation keeps the last put of a cell", "rm[put q=b@100]", "b"),
    Case(
        "the limit keeps the highest timestamps",
        "put q=a@100; put q=b@200; put q=c@300; put q=d@400; put q=e@500",
        "e d c",
    ),
    Case("one version of three", "put q=a@100; put q=b@200; put q=c@300", "c", versions=1),
    Case("columns have their own limits", "put p=a@1; put q=b@2; put p=c@3; put q=d@4", "p=c d", versions=1),
    Case("a future timestamp is the newest", "put q=f@4102444800000; put q=n@100", "f n"),
    Case("the extreme timestamps are kept", "put q=a@0; put q=b@9223372036854775806", "b a"),
    Case("an empty qualifier is a column like any other", "put =x@100; put q=a@100", "=x a"),
    Case("an empty value is a value", "put q=@100; put q=a@50", " a"),
]

READ_POINTS = [
    Case("a write past the read point is not seen", "put q=a@100; put q=b@200", "a", read_point=1),
    Case("a write past the read point takes no one's place", "put q=a@100; put q=b@100", "a", versions=1, read_point=1),
    Case("a tombstone past the read point hides nothing", "put q=a@100; delc q@200", "a", read_point=1),
    Case("before the first write there is nothing", "put q=a@100", "-", read_point=0),
    Case(
        "what was pushed out later is still seen before", "put q=a@1; put q=b@2; delf@9", "a", versions=1, read_point=1
    ),
]

_ABC = "put q=a@100; put q=b@200; put q=c@300"

DELETES = [
    Case("delete the newest version", f"{_ABC}; delv q@300", "b a"),
    Case("delete the newest version twice", f"{_ABC}; delv q@300; delv q@200", "a"),
    Case("delete a version in the middle", f"{_ABC}; delv q@200", "c a"),
    Case("delete versions up to a timestamp", f"{_ABC}; delc q@200", "c"),
    Case("delete a column", f"{_ABC}; delc q@400", "-"),
    Case("delete a family", f"{_ABC}; delf@400", "-"),
    Case("delete a row up to a timestamp", f"{_ABC}; put p=x@100; delrow@200", "c"),
    Case("delete a family up to a timestamp", f"{_ABC}; put p=x@201; delf@200", "p=x c"),
    Case("deleting a column leaves the others", "put p=x@100; put q=a@100; delc p@100", "a"),
    Case("a family's tombstone reaches the empty qualifier", "put =x@100; put q=a@100; delf@100", "-"),
    Case("the empty qualifier's tombstone reaches only it", "put =x@100; put q=a@100; delc @100", "a"),
    Case("two versions, the older one deleted", f"{_ABC}; delc q@100", "c b", versions=2),
    Case("a tombstone between two versions", "put q=a@100; put q=b@200; delc q@150", "b", versions=1),
    Case("a put above a tombstone is seen", "put q=a@100; delc q@200; put q=b@201", "b"),
    Case("a tombstone of nothing hides nothing", "delc p@100; delv q@100; put q=a@200", "a"),
    Case("a version tombstone between timestamps hides nothing", "put q=a@100; put q=b@200; delv q@150", "b a"),
    Case("the highest of two family tombstones counts", "put q=a@100; delf@200; delf@50", "-"),
    Case("the lower family tombstone comes later", "put q=a@100; delf@50; put q=b@40; delf@45", "a"),
    Case("future, then delete the column", "put q=f@4102444800000; put q=n@100; delc q@100", "f"),
]

PUT_AFTER_DELETE = [
    Case("put after delete column, one millisecond", "put q=a@100; delc q@100; put q=b@100", "b", hbase="-"),
    Case("put after delete version, one millisecond", "put q=a@100; delv q@100; put q=b@100", "b", hbase="-"),
    Case("put after delete family, one millisecond", "put q=a@100; delf@100; put q=b@100", "b", hbase="-"),
    Case("put after delete row, one millisecond", "put q=a@100; delrow@100; put q=b@100", "b", hbase="-"),
    Case("put, delete and put again twice", "put q=a@1; delrow@1; put q=b@1; delrow@1; put q=c@1", "c", hbase="-"),
    Case("put below a column tombstone", "delc q@200; put q=a@100", "a", hbase="-"),
    Case("put below a family tombstone", "delf@200; put q=a@100", "a", hbase="-"),
    Case("put below a tombstone that hid something", "put q=z@150; delc q@200; put q=a@100", "a", hbase="- or a"),
    Case("a deleted future and a put now", "put q=f@4102444800000; delrow@4102444800000; put q=n@100", "n", hbase="-"),
]

ONE_MUTATION = [
    Case("delete column, then put", "rm[delc q@100, put q=a@100]", "a", hbase="-"),
    Case("put, then delete column: the put was collapsed", "rm[delc q@100]", "-"),
    Case("delete row, then put", "put q=z@100; rm[delrow@100, put q=a@100]", "a", hbase="-"),
    Case("delete version, then put in its place", "put q=z@100; rm[delv q@100, put q=a@100]", "a", hbase="-"),
    Case("delete row, then put one above", "rm[delrow@100, put q=b@101]", "b"),
    Case("delete one column, put another", "put p=x@1; rm[delc p@100, put q=b@100]", "b"),
    Case("delete row, then put two columns", "put p=x@1; rm[delrow@9, put p=y@9, put q=b@9]", "p=y b", hbase="-"),
    Case("two tombstones of one mutation", "put q=a@1; put q=b@2; put q=c@3; rm[delv q@3, delc q@1]", "b"),
    Case("a later mutation's delete reaches a mutation's put", "rm[delc q@9, put q=a@9]; delc q@9", "-"),
    Case("more puts than versions", "rm[put q=a@1, put q=b@2, put q=c@3]", "c b", versions=2),
]

DROPPED_FOR_GOOD = [
    Case("one version, newest deleted", "put q=a@100; put q=b@200; delv q@200", "-", hbase="a or -", versions=1),
    Case("the fourth does not come back", f"{_ABC}; put q=d@400; delv q@400", "c b", hbase="c b a"),
    Case("nor does it for a version in the middle", f"{_ABC}; put q=d@400; delv q@300", "d b", hbase="d b a"),
    Case(
        "a put that came too low is gone too", "put q=b@200; put q=a@100; delv q@200", "-", hbase="a or -", versions=1
    ),
    Case(
        "room made by a delete is for later puts",
        "put q=a@1; put q=b@2; put q=c@3; delv q@3; put q=d@1",
        "b d",
        hbase="b a",
        versions=2,
    ),
    Case(
        "writing over a version pushes nothing out",
        "put q=a@1; put q=b@2; put q=c@2; delv q@2",
        "a",
        hbase="a",
        versions=2,
    ),
    Case("a row tombstone between", "put q=a@1; put q=b@2; delrow@2; put q=c@1", "c", hbase="-", versions=1),
    Case(
        "a family tombstone makes room", "put q=a@1; put q=b@2; delf@1; put q=c@1; delv q@2", "c", hbase="-", versions=2
    ),
]

TIME_TO_LIVE = [
    Case("both expired", "put q=a@100; put q=b@200", "-", time_to_live_ms=10),
    Case("the older one expired", "put q=a@100; put q=b@995", "b", time_to_live_ms=10),
    Case("expired at exactly its time", "put q=a@990; put q=b@991", "b", time_to_live_ms=10),
    Case("the newest one is kept", "put q=a@100; put q=b@200", "b", time_to_live_ms=10, min_versions=1),
    Case(
        "the newest two are kept",
        "put q=a@100; put q=b@200; put q=c@300",
        "c b",
        versions=5,
        time_to_live_ms=10,
        min_versions=2,
    ),
    Case("kept ones count the living", "put q=a@1; put q=b@2; put q=c@999", "c b", time_to_live_ms=9, min_versions=2),
    Case(
        "the newest deleted, the one before is kept",
        "put q=a@100; put q=b@200; delv q@200",
        "a",
        time_to_live_ms=10,
        min_versions=1,
    ),
    Case("a deleted column keeps none", "put q=a@100; delc q@500", "-", time_to_live_ms=10, min_versions=1),
    Case("an expired tombstone still hides", "put q=a@999; delc q@999", "-", time_to_live_ms=10, now_ms=1005),
    Case(
        "an expired version still holds its place",
        "put q=a@999; put q=b@2000; delv q@2000",
        "-",
        hbase="a or -",
        versions=1,
    ),
    Case("a timestamp ahead of now has not expired", "put q=a@5000", "a", time_to_live_ms=10),
]

CASES = [
    *VERSIONS,
    *READ_POINTS,
    *DELETES,
    *PUT_AFTER_DELETE,
    *ONE_MUTATION,
    *DROPPED_FOR_GOOD,
    *TIME_TO_LIVE,
]
