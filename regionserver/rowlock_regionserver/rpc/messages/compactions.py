"""Compactions: converts jobs to messages."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from rowlock_proto.v1 import catalog_pb2

from rowlock_regionserver.compaction.job import CompactionJob, State
from rowlock_regionserver.compaction.picker import Kind

_KINDS: Mapping[Kind, catalog_pb2.Compaction.Kind] = {
    Kind.MINOR: catalog_pb2.Compaction.KIND_MINOR,
    Kind.MAJOR: catalog_pb2.Compaction.KIND_MAJOR,
}
_STATES: Mapping[State, catalog_pb2.Compaction.State] = {
    State.QUEUED: catalog_pb2.Compaction.STATE_QUEUED,
    State.WORKING: catalog_pb2.Compaction.STATE_WORKING,
    State.SUCCEEDED: catalog_pb2.Compaction.STATE_SUCCEEDED,
    State.FAILED: catalog_pb2.Compaction.STATE_FAILED,
    State.ATTEMPTED: catalog_pb2.Compaction.STATE_ATTEMPTED,
}


def compaction_messages(jobs: Iterable[CompactionJob]) -> list[catalog_pb2.Compaction]:
    return [_message(job) for job in jobs]


def _message(job: CompactionJob) -> catalog_pb2.Compaction:
    work = job.work
    return catalog_pb2.Compaction(
        id=job.job_id,
        table=job.table,
        family=job.family,
        region_id=job.store.region_id,
        kind=_KINDS[job.kind],
        state=_STATES[job.state],
        requested_by_hand=job.is_by_hand,
        why=job.why,
        worker=job.worker,
        queued_ms=job.queued_ms,
        started_ms=job.started_ms,
        ended_ms=job.ended_ms,
        bytes_total=work.bytes_total,
        bytes_read=work.bytes_read,
        bytes_written=work.bytes_written,
        files_in=work.files_in,
        files_out=work.files_out,
        cells_in=work.cells_in,
        cells_out=work.cells_out,
        error=job.error,
    )
