"""The ids of the requests in a PointRequests message, read without parsing the message.

A message for which there is no memory is refused request by request, and parsing it would take several times its
bytes.
"""

from __future__ import annotations

from rowlock_proto.direct_frames import Body
from rowlock_proto.v1.region_pb2 import PointRequest, PointRequests

from rowlock_regionserver.errors import InvalidRequestError
from rowlock_regionserver.rpc.messages.wire_fields import LENGTH, VARINT, fields_of, varint_at

_REQUESTS: int = PointRequests.DESCRIPTOR.fields_by_name["requests"].number
_ID: int = PointRequest.DESCRIPTOR.fields_by_name["id"].number


def request_ids(data: Body) -> list[int]:
    """Returns the ids in their order. Raises InvalidRequestError if the bytes are not a PointRequests message."""
    message = memoryview(data)
    try:
        return [
            _id(message[field.start : field.stop])
            for field in fields_of(message)
            if field.number == _REQUESTS and field.kind == LENGTH
        ]
    except (IndexError, ValueError):
        raise InvalidRequestError(
            f"the {len(data)} bytes sent are not a {PointRequests.DESCRIPTOR.full_name} message; generate the client "
            "from the .proto files of rowlock.v1"
        ) from None


def _id(request: memoryview) -> int:
    """Returns the id of one request: the last one if the field is repeated, 0 if it is absent."""
    found = 0
    for field in fields_of(request):
        if field.number == _ID and field.kind == VARINT:
            found, _ = varint_at(request, field.start)
    return found
