"""Puts in columns as row mutations, one by one."""

from __future__ import annotations

import pyarrow as pa
from rowlock_proto.v1 import region_pb2


def mutations_of(message: region_pb2.PutRows) -> list[region_pb2.RowMutation]:
    with pa.ipc.open_stream(message.rows.arrow) as reader:
        (batch,) = reader
    mutations = []
    for place, line in enumerate(batch.to_pylist()):
        mutation = region_pb2.RowMutation(row=line["row"])
        if message.sequences:
            mutation.sequence = message.sequences[place]
        for number, column in enumerate(message.rows.columns):
            value = line[str(number)]
            if value is not None:
                put = mutation.changes.add().put
                put.family, put.qualifier, put.value = column.family, column.qualifier, value
                if line["timestamp"] is not None:
                    put.timestamp = line["timestamp"]
        mutations.append(mutation)
    return mutations
