"""One process that runs procedures, as the server sees it: started, called, and killed when a call takes too long.

1. A call has a time limit, which includes its reads. When it is over, the process is killed, so nothing of the call can
   happen later, and the caller releases the row lock.
2. What the process sends is checked. After a message that makes no sense, or is too long, it is killed.
3. After each call the process either waits for the next one, or is dead.
4. A read that the server refuses fails the call, whatever the procedure makes of it.
"""

from __future__ import annotations

import contextlib
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from rowlock_regionserver.clock import Clock
from rowlock_regionserver.config import Config
from rowlock_regionserver.errors import RegionServerError, RegionTooBusyError
from rowlock_regionserver.operations import (
    Change,
    ColumnSelector,
    Delete,
    DeleteKind,
    ProcedureCall,
    ProcedureReply,
    Put,
)
from rowlock_regionserver.procedures.failure import failed
from rowlock_regionserver.procedures.messages import (
    BadMessageError,
    ChangeKind,
    Channel,
    Field,
    MessageKind,
    TooLongError,
)

# Reads columns of the call's row: (family, qualifier, value) of each that is there. No selector: the whole row.
ReadCells = Callable[[Sequence[ColumnSelector]], Sequence[tuple[bytes, bytes, bytes]]]

_MODULE = "rowlock_regionserver.procedures.child"
_START_SECONDS_MAX = 30.0
# How long it takes to learn how a process has ended, and to collect it after it was killed.
_END_SECONDS_MAX = 0.2
# Bytes of a message beyond the answer and the changes: lengths, names, the row.
_MESSAGE_BYTES = 128 * 1024


class ChildProcess:
    """A process for one call at a time. Used by one thread at a time."""

    def __init__(self, procedures: Mapping[str, str], config: Config, clock: Clock) -> None:
        """Starts the process, and does not wait for it. `procedures`: MODULE:FUNCTION by name. Raises OSError."""
        self._config = config
        self._clock = clock
        self._is_ready = False
        self._is_alive = True
        self._call_number = 0
        ours, theirs = socket.socketpair()
        try:
            self._process = subprocess.Popen(
                [
                    *(sys.executable, "-P", "-m", _MODULE, str(theirs.fileno())),
                    str(2 * config.procedure_ms_max / 1000 + 1),
                    str(config.procedure_memory_bytes_max),
                    *(f"{name}={value}" for name, value in procedures.items()),
                ],
                stdin=subprocess.DEVNULL,
                stdout=2,  # What a procedure prints goes to the server's log; standard output is the operator's.
                pass_fds=(theirs.fileno(),),
                process_group=0,  # Else Ctrl-C in the server's terminal would end calls under way.
            )
        except BaseException:
            ours.close()
            raise
        finally:
            theirs.close()
        self._channel = Channel(ours)

    @property
    def is_alive(self) -> bool:
        """Whether it can be called again: it was not killed."""
        return self._is_alive

    def is_running(self) -> bool:
        """Whether the process still runs: it may also have died while it waited for a call."""
        return self._is_alive and self._process.poll() is None

    def wait_until_ready(self, deadline: float) -> None:
        """Blocks until it has imported its procedures. Raises RegionTooBusyError if it does not start."""
        if self._is_ready:
            return
        until = min(deadline, self._clock.monotonic() + _START_SECONDS_MAX)
        try:
            kind, _ = self._channel.receive(_MESSAGE_BYTES, partial(self._remaining, until))
            if kind is not MessageKind.READY:
                raise BadMessageError(kind.name)
        except (TimeoutError, EOFError, ConnectionError, BadMessageError, TooLongError) as error:
            self.kill()
            raise RegionTooBusyError(
                f"a process for procedures does not start: {self._ended() or type(error).__name__}; see the server's "
                "log, and retry",
                retry_after_ms=self._config.retry_after_ms,
            ) from None
        self._is_ready = True

    def run(self, call: ProcedureCall, table: str, read: ReadCells) -> ProcedureReply:
        """Runs the procedure; blocks for `procedure_ms_max`, and for a read of a disk that is slow.

        Raises ProcedureFailedError, and the errors of `read`. It must be ready.
        """
        limit_ms = self._config.procedure_ms_max
        remaining = partial(self._remaining, self._clock.monotonic() + limit_ms / 1000)
        try:
            return self._run(call, table, read, remaining)
        except TimeoutError:
            self.kill()
            raise failed(call, f"it took longer than procedure_ms_max = {limit_ms} ms") from None
        except TooLongError as error:
            self.kill()
            bytes_max = self._config.procedure_write_bytes_max
            raise failed(
                call,
                f"its answer and changes have {error.byte_count} bytes, more than procedure_write_bytes_max = "
                f"{bytes_max}",
            ) from None
        except (EOFError, ConnectionError):
            self.kill()
            raise failed(call, f"its process ended{self._ended()}") from None
        except BadMessageError as error:
            self.kill()
            raise failed(call, f"its process sent what makes no sense: {error}") from None
        except RegionServerError:
            raise  # The procedure has ended too: the process waits for the next call.
        except BaseException:
            self.kill()
            raise

    def _run(self, call: ProcedureCall, table: str, read: ReadCells, remaining: Callable[[], float]) -> ProcedureReply:
        self._call_number += 1
        number = str(self._call_number).encode()
        self._channel.send(
            MessageKind.CALL, [number, call.name.encode(), table.encode(), call.row, call.argument], remaining
        )
        bytes_max = self._config.procedure_write_bytes_max + _MESSAGE_BYTES
        refusal: RegionServerError | None = None
        while True:
            kind, fields = self._channel.receive(bytes_max, remaining)
            if not fields or fields[0] != number:
                raise BadMessageError(f"{kind.name} of another call")
            if kind is MessageKind.READ:
                try:
                    cells = read(_selectors(fields[1:]))
                except RegionServerError as error:
                    refusal = refusal or error
                    self._channel.send(MessageKind.REFUSED, [error.message.encode()], remaining)
                else:
                    self._channel.send(MessageKind.CELLS, [part for cell in cells for part in cell], remaining)
            elif kind is MessageKind.DONE or kind is MessageKind.FAILED:
                if refusal is not None:
                    raise refusal
                if kind is MessageKind.FAILED:
                    raise failed(call, (fields[1] or b"").decode(errors="backslashreplace") if fields[1:] else "?")
                return _reply(fields[1:])
            else:
                raise BadMessageError(f"{kind.name} within a call")

    def kill(self) -> None:
        """Ends it at once. Idempotent; does not wait for its end."""
        self._is_alive = False
        self._process.kill()

    def close(self) -> None:
        """Ends it, and waits for its end. One that waits for a call ends by itself."""
        self._is_alive = False
        self._channel.close()
        try:
            self._process.wait(_END_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _remaining(self, deadline: float) -> float:
        return deadline - self._clock.monotonic()

    def _ended(self) -> str:
        """Returns how the process has ended, as the rest of a sentence; empty if it is not known."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_END_SECONDS_MAX)
        code = self._process.returncode
        if code is None:
            return ""
        return f" by signal {-code}" if code < 0 else f" with exit code {code}"


def _selectors(fields: Sequence[Field]) -> list[ColumnSelector]:
    if len(fields) % 2:
        raise BadMessageError("a READ of half a column")
    return [
        ColumnSelector(family or b"", qualifier) for family, qualifier in zip(fields[::2], fields[1::2], strict=True)
    ]


def _reply(fields: Sequence[Field]) -> ProcedureReply:
    given = [field for field in fields if field is not None]
    if len(given) < 2 or len(given) < len(fields) or (len(given) - 2) % 4:
        raise BadMessageError(f"DONE with {len(fields)} fields")
    row, answer, *parts = given
    changes = zip(parts[::4], parts[1::4], parts[2::4], parts[3::4], strict=True)
    return ProcedureReply(row, answer, tuple([_change(*change) for change in changes]))


def _change(kind: bytes, family: bytes, qualifier: bytes, value: bytes) -> Change:
    if kind == ChangeKind.PUT.value:
        return Put(family, qualifier, value)
    if kind == ChangeKind.DELETE_COLUMN.value:
        return Delete(DeleteKind.COLUMN, family, qualifier)
    if kind == ChangeKind.DELETE_FAMILY.value:
        return Delete(DeleteKind.FAMILY, family)
    if kind == ChangeKind.DELETE_ROW.value:
        return Delete(DeleteKind.ROW)
    raise BadMessageError(f"a change of kind {kind!r}")
