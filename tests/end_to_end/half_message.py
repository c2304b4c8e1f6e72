"""A client that sends the start of a large message and then nothing. It speaks HTTP/2 itself: grpc sends whole ones."""

from __future__ import annotations

import socket
import struct
from types import TracebackType

from tests.waiting import WAIT_S

_DATA, _HEADERS, _SETTINGS, _PING, _WINDOW_UPDATE = 0, 1, 4, 6, 8
_ACKNOWLEDGED, _END_HEADERS = 1, 4
_INITIAL_WINDOW_SETTING = 4
_DEFAULT_WINDOW = 65_535
_FRAME_BYTES_MAX = 16_384


class HalfMessage:
    """One call with one endless message. `send` blocks while the server's flow control does not accept more."""

    def __init__(self, address: str, path: str, message_bytes: int) -> None:
        host, _, port = address.rpartition(":")
        if host == "unix":
            self._socket = socket.socket(socket.AF_UNIX)
            self._socket.settimeout(WAIT_S)
            self._socket.connect(port)
        else:
            self._socket = socket.create_connection((host, int(port)), timeout=WAIT_S)
        self._windows = {0: _DEFAULT_WINDOW, 1: _DEFAULT_WINDOW}  # of the connection and of the stream
        self._initial_window = _DEFAULT_WINDOW
        self._received = b""
        self._socket.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + _frame(_SETTINGS, 0, 0, b""))
        headers = {
            b":method": b"POST",
            b":scheme": b"http",
            b":path": path.encode(),
            b":authority": address.encode(),
            b"te": b"trailers",
            b"content-type": b"application/grpc",
        }
        block = b"".join(b"\x00" + _text(name) + _text(value) for name, value in headers.items())
        self._socket.sendall(_frame(_HEADERS, _END_HEADERS, 1, block))
        self._to_send = struct.pack(">BI", 0, message_bytes)

    def send(self, byte_count: int) -> None:
        """Sends so many bytes of the message. Raises ConnectionError if the server has closed the connection."""
        left = byte_count
        while left or self._to_send:
            data = (self._to_send + bytes(min(left, _FRAME_BYTES_MAX)))[:_FRAME_BYTES_MAX]
            room = min(self._windows.values())
            if room < len(data):
                self._read_frame()
                continue
            left -= min(left, len(data) - len(self._to_send))
            self._to_send = b""
            self._windows = {stream: window - len(data) for stream, window in self._windows.items()}
            self._socket.sendall(_frame(_DATA, 0, 1, data))

    def is_ended(self) -> bool:
        """Returns whether the server has closed the connection; waits a while for its next frame."""
        self._socket.settimeout(0.05)
        try:
            while True:
                self._read_frame()
        except TimeoutError:
            return False
        except ConnectionError:
            return True

    def _read_frame(self) -> None:
        head = self._read(9)
        length, kind, flags = int.from_bytes(head[:3], "big"), head[3], head[4]
        stream = int.from_bytes(head[5:], "big") & 0x7FFFFFFF
        body = self._read(length)
        if kind == _WINDOW_UPDATE and stream in self._windows:
            self._windows[stream] += int.from_bytes(body, "big") & 0x7FFFFFFF
        elif kind == _SETTINGS and not flags & _ACKNOWLEDGED:
            for place in range(0, length, 6):
                setting, value = struct.unpack_from(">HI", body, place)
                if setting == _INITIAL_WINDOW_SETTING:
                    self._windows[1] += value - self._initial_window
                    self._initial_window = value
            self._socket.sendall(_frame(_SETTINGS, _ACKNOWLEDGED, 0, b""))
        elif kind == _PING and not flags & _ACKNOWLEDGED:
            self._socket.sendall(_frame(_PING, _ACKNOWLEDGED, 0, body))

    def _read(self, byte_count: int) -> bytes:
        while len(self._received) < byte_count:
            data = self._socket.recv(1 << 16)
            if not data:
                raise ConnectionError("the server has ended the connection")
            self._received += data
        found, self._received = self._received[:byte_count], self._received[byte_count:]
        return found

    def __enter__(self) -> HalfMessage:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._socket.close()


def _frame(kind: int, flags: int, stream: int, body: bytes) -> bytes:
    return len(body).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + body


def _text(value: bytes) -> bytes:
    """Returns an HPACK literal without Huffman coding; at most 126 bytes."""
    assert len(value) < 127, value
    return bytes([len(value)]) + value
