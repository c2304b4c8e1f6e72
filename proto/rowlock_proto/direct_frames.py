"""The framing of the direct connection, for both sides: a preamble, then frames. docs/direct_protocol.md explains it.

    preamble   "rowlock", one byte: the version
    frame      four bytes, big-endian: the length of kind and body; one byte: the kind; the body

`FrameReader` cuts received bytes into frames, one at a time. It checks each length before it keeps anything, so it
holds one frame within the limit at most, plus what one receive brought. A large body is received in place: the system
copies its bytes to where they stay.
"""

from __future__ import annotations

import struct
from collections.abc import Callable

MAGIC = b"rowlock"
VERSION = 1
PREAMBLE = MAGIC + bytes((VERSION,))

# Kinds. Those from 16 on are of connections for scans, those from 32 on of connections for bulk batches.
HELLO = 1  # client: a DirectHello; server: a DirectWelcome
REQUESTS = 2  # client: PointRequests
ANSWERS = 3  # server: PointAnswers
PING = 4  # client: up to 64 bytes
PONG = 5  # server: the body of the newest PING
END = 6  # server: an Error, why it ends the connection
SCAN = 16  # client: a ScanRequest
SCAN_BATCH = 17  # server: a ScanBatch
SCAN_END = 18  # server: an Error, or nothing if the scan has ended as it should
BULK_BATCH = 32  # client: a BulkBatch
BULK_ANSWER = 33  # server: a BulkAnswer, to the oldest batch without one

# The largest body of a HELLO, PING, PONG and END.
SHORT_BODY_BYTES_MAX = 16 * 1024
PING_BODY_BYTES_MAX = 64
# By how much the body of ANSWERS may exceed the server's body_bytes_max.
ANSWERS_SLACK_BYTES = 1024 * 1024

HEAD = struct.Struct(">IB")
HEAD_BYTES = HEAD.size
# A longer body gets a buffer of its own while it is received.
LARGE_BODY_BYTES = 64 * 1024
# The largest body of a SCAN; a larger request goes by gRPC. One of SCAN_BATCH may have as much as a message of gRPC.
SCAN_BODY_BYTES_MAX = 32 * 1024

Body = bytes | bytearray | memoryview
Frame = tuple[int, Body]


class FrameError(Exception):
    """The received bytes are not frames, or one is too long. Nothing after them can be understood.

    length: of the frame that is too long; 0: the bytes are not a frame.
    """

    def __init__(self, message: str, length: int = 0) -> None:
        super().__init__(message)
        self.length = length


class VersionError(FrameError):
    """The other side speaks another version of the framing."""


def frame(kind: int, body: bytes) -> bytes:
    """Returns a frame."""
    return HEAD.pack(len(body) + 1, kind) + body


class FrameReader:
    """Cuts received bytes into frames. Not thread-safe.

        reader.received(socket.recv_into(reader.room()))
        while (found := reader.next()) is not None:
            kind, body = found

    After `next` has returned None, a large frame may wait for memory (`large_bytes`): then call `begin_large` before
    the next `room`. Or the bytes make no sense: then `error` is set.
    """

    __slots__ = (
        "_at",
        "_data",
        "_end",
        "_is_greeted",
        "_large",
        "_large_kind",
        "_large_view",
        "_length_max",
        "_missing",
        "_scratch",
        "error",
        "large_bytes",
    )

    def __init__(self, body_bytes_max: int, scratch: memoryview) -> None:
        """scratch: receives what is not a large body. Readers may share one if each calls `hold` before the next."""
        self._scratch = scratch
        self._length_max = body_bytes_max + 1
        self._is_greeted = False
        # What was received and is not cut: _data[_at:_end], in the scratch or held.
        self._data: memoryview | bytes = b""
        self._at = self._end = 0
        # The body of a large frame, its kind, and how many bytes are missing.
        self._large: bytearray | memoryview | None = None
        self._large_view: memoryview | None = None
        self._large_kind = 0
        self._missing = 0
        # The length of a large frame that has begun and has no buffer yet; 0: none.
        self.large_bytes = 0
        self.error: FrameError | None = None

    def set_body_bytes_max(self, body_bytes_max: int) -> None:
        """Sets the limit of the bodies of later frames."""
        self._length_max = body_bytes_max + 1

    @property
    def has_bytes(self) -> bool:
        """Whether bytes were received that are not returned as frames."""
        return self._at < self._end or self._large is not None

    @property
    def bytes_held(self) -> int:
        """The memory for bytes that are not returned as frames."""
        return self._end - self._at + (len(self._large) if self._large is not None else 0)

    @property
    def bytes_received(self) -> int:
        """The received bytes that are not returned as frames."""
        return self.bytes_held - self._missing

    def room(self) -> memoryview:
        """Returns where to receive the next bytes."""
        assert not self.large_bytes, "a large frame waits for memory"
        if self._large_view is None:
            if self._at < self._end:
                self.hold()
            return self._scratch
        return self._large_view[len(self._large_view) - self._missing :]

    def received(self, count: int) -> None:
        """Takes the bytes that were put into `room`."""
        if self._large is not None:
            self._missing -= count
            return
        if self._at == self._end:
            self._data, self._at, self._end = self._scratch, 0, count
        else:
            self._data = bytes(self._data[self._at : self._end]) + self._scratch[:count]
            self._at, self._end = 0, len(self._data)

    def next(self) -> Frame | None:
        """Returns the next frame; None if no frame is complete."""
        if self._large is not None:
            return self._next_large()
        if not self._is_greeted and not self._is_greeting_complete():
            return None
        data, at = self._data, self._at
        available = self._end - at
        if available < HEAD_BYTES:
            return None
        length, kind = HEAD.unpack_from(data, at)
        if not 0 < length <= self._length_max:
            self.error = self._refused(length)
            return None
        if available < HEAD_BYTES - 1 + length:
            if length > LARGE_BODY_BYTES:
                self.large_bytes = length
            return None
        stop = at + HEAD_BYTES - 1 + length
        self._at = stop
        return kind, bytes(data[at + HEAD_BYTES : stop])

    def hold(self) -> None:
        """Copies the bytes that are not cut out of the scratch, so that another reader may use it."""
        if self._at == self._end:
            self._data, self._at, self._end = b"", 0, 0
        elif self._data is self._scratch:
            self._data = bytes(self._data[self._at : self._end])
            self._at, self._end = 0, len(self._data)

    def begin_large(self, allocate: Callable[[int], bytearray | memoryview] = bytearray) -> None:
        """Makes the buffer of the large frame that has begun. allocate: returns writable memory of this many bytes."""
        length, self._large_kind = HEAD.unpack_from(self._data, self._at)
        assert length == self.large_bytes, (length, self.large_bytes)
        came = self._data[self._at + HEAD_BYTES : self._end]
        self._large = allocate(length - 1)
        self._large_view = memoryview(self._large)
        self._large_view[: len(came)] = came
        self._missing = length - 1 - len(came)
        self._data, self._at, self._end = b"", 0, 0
        self.large_bytes = 0

    def _next_large(self) -> Frame | None:
        body = self._large
        if self._missing or body is None:
            return None
        self._large = self._large_view = None
        return self._large_kind, body

    def _is_greeting_complete(self) -> bool:
        """Checks the preamble, as far as it came, and skips it when it is complete."""
        came = bytes(self._data[self._at : min(self._end, self._at + len(PREAMBLE))])
        if came[: len(MAGIC)] != MAGIC[: len(came)]:
            self.error = FrameError("the first bytes are not those of a rowlock connection")
            return False
        if len(came) < len(PREAMBLE):
            return False
        version = came[len(MAGIC)]
        if version != VERSION:
            self.error = VersionError(f"the other side speaks version {version} of the framing, not {VERSION}")
            return False
        self._at += len(PREAMBLE)
        self._is_greeted = True
        return True

    def _refused(self, length: int) -> FrameError:
        if not length:
            return FrameError("a frame has the length 0, but each has a kind")
        limit = self._length_max - 1
        return FrameError(f"a frame has a body of {length - 1} bytes, more than the limit of {limit}", length)
