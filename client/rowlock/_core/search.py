"""The search for a server to connect to, without I/O: judges the answers of addresses and ends at a deadline.

A round tries all addresses in turn; after a pause the next round begins. The search ends:

- when a server answers that speaks the protocol, has recovered, and serves the requested folder, if one is requested;
- at once when something other than rowlock answers, because waiting can't help;
- at the deadline. It may be earlier (absent_s) while no server listens than while one is recovering. An unknown host
  name counts as "no server listens": a container's name often appears only when its server starts.
"""

from __future__ import annotations

import os

from rowlock_proto.unix_sockets import PREFIX
from rowlock_proto.v1 import catalog_pb2

from rowlock._codec.wire_errors import NAME_NOT_FOUND, NOT_GRPC
from rowlock._core.features import PROTOCOL
from rowlock._core.retry import RetryPolicy
from rowlock.errors import InvalidArgumentError, RowlockError, ServerRecoveringError, ServerUnavailableError

_POLICY = RetryPolicy(pause_first_s=0.05, pause_s_max=0.5)


class Search:
    """One search. Times are seconds on one monotonic clock. Not thread-safe."""

    def __init__(
        self,
        addresses: tuple[str, ...],
        now: float,
        timeout_s: float,
        *,
        absent_s: float | None = None,
        folder_id: str = "",
    ) -> None:
        """absent_s: for how long to search while no server listens; None: timeout_s.

        folder_id: the data folder that the server must have; empty: any.
        """
        self._addresses = addresses
        self._deadline = now + timeout_s
        self._absent_deadline = now + (timeout_s if absent_s is None else min(absent_s, timeout_s))
        self._folder_id = folder_id
        self._round = 1
        self._errors: dict[str, RowlockError] = {}  # by address, in this round

    def share_s(self, now: float) -> float:
        """Returns the seconds for the next address of this round: an equal share of the time left."""
        return (self._deadline - now) / max(1, len(self._addresses) - len(self._errors))

    def failed(self, address: str, error: RowlockError) -> None:
        """Records that the address gave no valid answer."""
        if NOT_GRPC in str(error):
            error = InvalidArgumentError(
                f"the server at {address} is not a rowlock server: it does not speak gRPC. Is the port right? ({error})"
            )
        self._errors[address] = error

    def answered(self, address: str, info: catalog_pb2.ServerInfoResponse) -> bool:
        """Returns whether to use this server. Raises InvalidArgumentError if it speaks a protocol that is too new."""
        if not 1 <= info.protocol <= PROTOCOL:
            raise InvalidArgumentError(
                f"the server at {address} speaks protocol {info.protocol}, and this client 1 to {PROTOCOL}; install "
                f"rowlock {info.version}, the server's version"
            )
        if self._folder_id and info.data_folder_id != self._folder_id:
            self._errors[address] = ServerUnavailableError(f"the server at {address} serves another data folder")
            return False
        return True

    def pause_s(self, now: float, draw: float) -> float:
        """Returns the pause in seconds before the next round; draw in [0, 1). Raises the search's error at the end."""
        for error in self._errors.values():
            if isinstance(error, InvalidArgumentError):
                raise error
        is_recovering = any(isinstance(error, ServerRecoveringError) for error in self._errors.values())
        pause = _POLICY.pause_s(self._round, draw)
        if now + pause >= (self._deadline if is_recovering else self._absent_deadline):
            raise self._unavailable()
        self._round += 1
        self._errors = {}
        return pause

    def _unavailable(self) -> ServerUnavailableError:
        addresses = ", ".join(self._addresses)
        address, error = list(self._errors.items())[-1]
        reason = _reason(address, error)
        if isinstance(error, ServerRecoveringError):
            return ServerRecoveringError(
                f"the rowlock server at {address} is still replaying its log, which takes longer the more was "
                "written since the last flush; pass a longer timeout to connect()"
            )
        if _is_unknown_name(address, error):
            host = address.rpartition(":")[0]
            if os.path.isdir(host):
                return ServerUnavailableError(
                    f"{host} is a folder, and no address of a server: start one by 'rowlock-server --data {host}', or "
                    "use rowlock.open(folder) in Python"
                )
            return ServerUnavailableError(
                f"no rowlock server answers at {addresses}: the host name {host!r} does not resolve. "
                f"Is the name right? ({reason})"
            )
        path = address.removeprefix(PREFIX)
        if address.startswith(PREFIX) and not os.path.exists(path):
            return ServerUnavailableError(
                f"no rowlock server answers at {addresses}: there is no socket {path}. "
                f"'rowlock-server --data FOLDER --listen {address}' makes it"
            )
        return ServerUnavailableError(
            f"no rowlock server answers at {addresses}: {reason}. Is it running? "
            "'rowlock-server --data FOLDER' starts one"
        )


def _reason(address: str, error: RowlockError) -> str:
    return str(error).removeprefix(f"no server answers at {address}: ")


def _is_unknown_name(address: str, error: RowlockError) -> bool:
    return _reason(address, error).startswith(NAME_NOT_FOUND)
