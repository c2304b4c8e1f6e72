"""A data folder after a stop or a kill of its server, and helpers to open it again."""

from __future__ import annotations

import json
import shutil
import struct
import threading
from collections.abc import Sequence
from pathlib import Path

from rowlock_regionserver import generations
from rowlock_regionserver.catalog.catalog import read_catalog, write_catalog
from rowlock_regionserver.cells import Durability, Family
from rowlock_regionserver.clock import Clock
from rowlock_regionserver.config import Config
from rowlock_regionserver.errors import RegionServerError
from rowlock_regionserver.files import Files
from rowlock_regionserver.host.region_server import RegionServer
from rowlock_regionserver.operations import Put, RowMutation, ScanPlan, WriteOptions
from rowlock_regionserver.region import manifest
from rowlock_regionserver.wal.record import Position, segment_seed
from rowlock_regionserver.wal.recovery import read_log
from rowlock_regionserver.wal.segment import SegmentHeader, encode_head, segment_path

from tests.unit.region.conftest import abandon, bulk_batch
from tests.waiting import WAIT_S

CONFIG = Config(log_segment_bytes=1 << 16, disk_free_bytes_min=0, bulk_file_bytes_min=1000)
FAMILIES = [Family(0, b"f"), Family(0, b"g")]
Rows = dict[bytes, list[bytes]]  # by row, the families with cells


def opened(folder: Path, files: Files | None = None, config: Config = CONFIG) -> RegionServer:
    def no_fatal(error: BaseException) -> None:
        raise AssertionError(error)

    return RegionServer.open(folder, config, Clock(), files or Files(), no_fatal)


def put(
    server: RegionServer,
    table: str,
    *rows: bytes,
    durability: Durability = Durability.FSYNC,
    families: Sequence[bytes] = (b"f", b"g"),
) -> None:
    (region,) = server.regions_of(table)
    done = threading.Event()
    mutations = [RowMutation(row, tuple(Put(family, b"q", b"v") for family in families)) for row in rows]
    options = WriteOptions(Clock().monotonic() + WAIT_S, durability)
    assert region.mutate(mutations, options, lambda _: done.set(), may_wait=True)
    assert done.wait(WAIT_S)


def put_bulk(server: RegionServer, table: str, row_count: int) -> None:
    """A bulk batch that is large enough for a file of its own."""
    (region,) = server.regions_of(table)
    done = threading.Event()
    batch = bulk_batch(*[(b"bulk%d" % row, b"f", b"q", None, b"v" * 100) for row in range(row_count)])
    region.bulk_put(batch, None, WriteOptions(Clock().monotonic() + WAIT_S), lambda _: done.set())
    assert done.wait(WAIT_S)


def rows_of(server: RegionServer, table: str) -> Rows:
    rows: Rows = {}
    (region,) = server.regions_of(table)
    with region.scan(ScanPlan()) as (_, answers):
        for answer in answers:
            for cell in answer.table.to_pylist():
                rows.setdefault(cell["row"], []).append(cell["family"])
    return rows


def content_of(server: RegionServer) -> dict[str, Rows | str]:
    """Every table's rows, or the damaged file for which it is closed."""
    content: dict[str, Rows | str] = {}
    for table in server.tables():
        try:
            content[table.name] = rows_of(server, table.name)
        except RegionServerError as error:
            content[table.name] = Path(str(getattr(error, "path", error))).name
    return content


def killed(server: RegionServer, folder: Path, target: Path) -> Path:
    """Copies the folder while the server runs, and then ends the server."""
    shutil.copytree(folder, target)
    abandon(server)
    return target


def cut_drop_short(folder: Path, table: str) -> None:
    """Leaves a folder, whose server was ended, as a kill just after the commit of a drop does."""
    found = read_catalog(Files(), folder / "catalog")
    assert found is not None
    generation, state = found
    write_catalog(Files(), folder / "catalog", generation + 1, state.without_table(table))


def newest(folder: Path, name: str) -> Path:
    """The newest generation of that name in the folder."""
    return sorted(folder.glob(f"{name}-*"))[-1]


def as_the_version_before_left_it(folder: Path) -> None:
    """Removes from the folder of a stopped server everything that version 0.1.0 did not write.

    The log is one of format 1 then, in which no generation is noted; catalog and manifests note no position of the log.
    """
    log = folder / "log"
    recovered = read_log(log, Files(), lambda *_: None)
    assert recovered.gaps == ()
    for path in log.iterdir():
        path.unlink()
    entries = [
        struct.pack("<QQQQ", region_id, state.last_logged, state.numbers_until, state.stamps_until)
        for region_id, state in sorted(recovered.regions.items())
    ]
    head_marker = struct.pack("<II", 0, len(entries)) + b"".join(entries)
    # The oldest segment of a log may have any number, and names the one before it.
    header = SegmentHeader(recovered.last_segment, recovered.log_id, recovered.last_segment - 1, 0, version=1)
    seed = segment_seed(header.log_id, header.number)
    segment_path(log, header.number).write_bytes(encode_head(header, seed, head_marker, Position(header.number, 64)))
    for path in [*(folder / "catalog").iterdir(), *folder.glob("regions/*/manifest-*")]:
        name, _, digits = path.name.rpartition("-")
        fields = json.loads(generations.read(Files(), path, int(digits), version_max=manifest.FORMAT_VERSION))
        fields.pop("log_position", None)
        path.unlink()
        generations.write(Files(), path.parent, name, int(digits), json.dumps(fields).encode())
