"""Connecting, without I/O: which of the addresses is asked next, what an answer is worth, and when it is given up.

All addresses are asked in turn, again and again after a pause. What ends the search:

- a server of our protocol that has recovered, and that serves the folder that is wanted, if one is;
- at once, a mistake that waiting can't mend: something else answers at an address;
- otherwise the time. Where nobody listens that may be shorter than where a server says that it is still recovering. A
  name that is not known counts as that: a container's name often appears only when its server starts.
"""

from __future__ import annotations

from rowlock_proto.v1 import catalog_pb2

from rowlock._codec.wire_errors import NAME_NOT_FOUND, NOT_GRPC
from rowlock._core.retry import RetryPolicy
from rowlock.errors import InvalidArgumentError, RowlockError, ServerRecoveringError, ServerUnavailableError

PROTOCOL = 1
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
        """absent_s: for how long to go on while no server listens; None: as long as for anything else.

        folder_id: the data folder that the server must have; empty: any.
        """
        self._addresses = addresses
        self._deadline = now + timeout_s
        self._absent_deadline = now + (timeout_s if absent_s is None else min(absent_s, timeout_s))
        self._folder_id = folder_id
        self._round = 1
        self._met: dict[str, RowlockError] = {}  # by address, in this round

    def share_s(self, now: float) -> float:
        """The time for the next address of this round: an equal share of what is left."""
        return (self._deadline - now) / max(1, len(self._addresses) - len(self._met))

    def failed(self, address: str, error: RowlockError) -> None:
        """The address gave no answer, or none that is one."""
        if NOT_GRPC in str(error):
            error = InvalidArgumentError(
                f"what answers at {address} is no rowlock server: it does not speak gRPC. Is the port right? ({error})"
            )
        self._met[address] = error

    def answered(self, address: str, info: catalog_pb2.ServerInfoResponse) -> bool:
        """Whether this is a server to use. Raises InvalidArgumentError when it speaks another protocol."""
        if info.protocol != PROTOCOL:
            raise InvalidArgumentError(
                f"the server at {address} speaks protocol {info.protocol}, and this client {PROTOCOL}; install the "
                f"version of rowlock that it has, {info.version}"
            )
        if self._folder_id and info.data_folder_id != self._folder_id:
            self._met[address] = ServerUnavailableError(f"the server at {address} serves another folder")
            return False
        return True

    def pause_s(self, now: float, draw: float) -> float:
        """The pause before all addresses are asked again; draw in [0, 1). Raises when it is given up."""
        for error in self._met.values():
            if isinstance(error, InvalidArgumentError):
                raise error
        is_recovering = any(isinstance(error, ServerRecoveringError) for error in self._met.values())
        pause = _POLICY.pause_s(self._round, draw)
        if now + pause >= (self._deadline if is_recovering else self._absent_deadline):
            raise self._nobody_answers()
        self._round += 1
        self._met = {}
        return pause

    def _nobody_answers(self) -> ServerUnavailableError:
        addresses = ", ".join(self._addresses)
        address, error = list(self._met.items())[-1]
        why = _reason(address, error)
        if isinstance(error, ServerRecoveringError):
            return ServerRecoveringError(
                f"the rowlock server at {address} is still reading its log, which takes the longer the more was "
                "written since the last flush; give connect() a longer timeout"
            )
        if _is_unknown_name(address, error):
            host = address.rpartition(":")[0]
            return ServerUnavailableError(
                f"no rowlock server answers at {addresses}: there is no host {host!r} as far as name servers "
                f"know. Is the name right? ({why})"
            )
        return ServerUnavailableError(
            f"no rowlock server answers at {addresses}: {why}. Is it running? 'rowlock-server --data FOLDER' starts one"
        )


def _reason(address: str, error: RowlockError) -> str:
    return str(error).removeprefix(f"no server answers at {address}: ")


def _is_unknown_name(address: str, error: RowlockError) -> bool:
    return _reason(address, error).startswith(NAME_NOT_FOUND)
