"""Stops a child process before each of its changing system calls, and kills it or lets a call fail: ptrace by ctypes.

    child = traced(work)                  # forks; `work` runs with the filter installed, under the tracer
    child.run(lambda call: KILL if call.number == 17 else GO_ON)

A seccomp filter in the child picks the system calls that change files, so that all others run at full speed; ptrace
stops the child before each of those, in whichever thread, also when a C library makes it. Linux on x86_64 and aarch64.
The tracer needs no rights beyond those over its own child, no compiler and no strace.
"""

from __future__ import annotations

import contextlib
import ctypes
import enum
import errno
import os
import platform
import signal
import struct
import sys
from collections.abc import Callable
from dataclasses import dataclass

# Of <linux/ptrace.h>.
_TRACEME = 0
_CONT = 7
_SETOPTIONS = 0x4200
_GETEVENTMSG = 0x4201
_GETREGSET = 0x4204
_SETREGSET = 0x4205
_NT_PRSTATUS = 1
_NT_ARM_SYSTEM_CALL = 0x404
_OPTION_FORKS = 0x02 | 0x04 | 0x08  # fork, vfork, clone: their children are traced too
_OPTION_SECCOMP = 0x80
_OPTION_EXITKILL = 0x100000
_EVENT_SECCOMP = 7
_WALL = 0x40000000

# Of <linux/seccomp.h>, <linux/filter.h> and <linux/prctl.h>.
_PR_SET_NO_NEW_PRIVS = 38
_PR_SET_SECCOMP = 22
_MODE_FILTER = 2
_RETURN_ALLOW = 0x7FFF0000
_RETURN_TRACE = 0x7FF00000
_LOAD, _JUMP_EQUAL, _JUMP_ANY_BIT, _RETURN = 0x20, 0x15, 0x45, 0x06
_OFFSET_NUMBER, _OFFSET_ARCHITECTURE, _OFFSET_ARGUMENTS = 0, 4, 16

_OPEN_CREATES = os.O_CREAT


@dataclass(frozen=True, slots=True)
class _Machine:
    """What differs between processors: the audit architecture, the calls' numbers, and where the registers lie."""

    architecture: int
    calls: dict[str, int]
    arguments: tuple[int, ...]  # indexes of 64-bit registers
    result: int
    number: int | None  # None: set by its own register set


_X86_64 = _Machine(
    0xC000003E,
    {
        "write": 1,
        "open": 2,
        "pwrite64": 18,
        "writev": 20,
        "msync": 26,
        "fsync": 74,
        "fdatasync": 75,
        "ftruncate": 77,
        "rename": 82,
        "mkdir": 83,
        "rmdir": 84,
        "creat": 85,
        "link": 86,
        "unlink": 87,
        "openat": 257,
        "mkdirat": 258,
        "unlinkat": 263,
        "renameat": 264,
        "linkat": 265,
        "fallocate": 285,
        "pwritev": 296,
        "renameat2": 316,
        "pwritev2": 328,
    },
    arguments=(14, 13, 12, 7),
    result=10,
    number=15,
)
_AARCH64 = _Machine(
    0xC00000B7,
    {
        "mkdirat": 34,
        "unlinkat": 35,
        "linkat": 37,
        "renameat": 38,
        "ftruncate": 46,
        "fallocate": 47,
        "openat": 56,
        "write": 64,
        "writev": 66,
        "pwrite64": 68,
        "pwritev": 70,
        "fsync": 82,
        "fdatasync": 83,
        "msync": 227,
        "renameat2": 276,
        "pwritev2": 287,
    },
    arguments=(0, 1, 2, 3),
    result=0,
    number=None,
)
# The flags' place among the arguments of calls that change files only when they create one.
_FLAGS = {"open": 1, "openat": 2}
_BY_DESCRIPTOR = {"write", "writev", "pwrite64", "pwritev", "pwritev2", "ftruncate", "fallocate", "fsync", "fdatasync"}


class TracerError(Exception):
    """This machine can't trace; the message says why."""


class Action(enum.Enum):
    """What becomes of a stopped call; a positive errno instead makes it fail with that."""

    GO_ON = enum.auto()
    KILL = enum.auto()  # the whole process, before the call is made


@dataclass(frozen=True, slots=True)
class SystemCall:
    """A changing call that is about to be made: its name, and the path of its descriptor, if it has one."""

    number: int  # counted from 1
    name: str
    path: str  # empty for calls that take a path themselves


Decide = Callable[[SystemCall], Action | int]


class _Instruction(ctypes.Structure):
    _fields_ = [
        ("code", ctypes.c_uint16),
        ("if_true", ctypes.c_uint8),
        ("if_false", ctypes.c_uint8),
        ("operand", ctypes.c_uint32),
    ]


class _Program(ctypes.Structure):
    _fields_ = [("count", ctypes.c_uint16), ("instructions", ctypes.POINTER(_Instruction))]


class _Vector(ctypes.Structure):
    _fields_ = [("base", ctypes.c_void_p), ("bytes", ctypes.c_size_t)]


_libc = ctypes.CDLL(None, use_errno=True)
_libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
_libc.ptrace.restype = ctypes.c_long


class Traced:
    """A forked child under the tracer. Used by the thread that made it."""

    def __init__(self, pid: int) -> None:
        self._machine = _machine()
        self._names = {number: name for name, number in self._machine.calls.items()}
        self.pid = pid
        self.call_count = 0

    def run(self, decide: Decide) -> int:
        """Lets the child run to its end; its wait status. `decide` is asked before each changing call.

        Calls on descriptors that are no files (pipes, sockets, event counters) are not counted.
        """
        _wait_for_stop(self.pid)
        options = _OPTION_FORKS | _OPTION_SECCOMP | _OPTION_EXITKILL
        _ptrace(_SETOPTIONS, self.pid, 0, options)
        _ptrace(_CONT, self.pid, 0, 0)
        while True:
            pid, status = os.waitpid(-1, _WALL)
            if os.WIFEXITED(status) or os.WIFSIGNALED(status):
                if pid == self.pid:
                    return status
                continue
            self._stopped(pid, status, decide)

    def _stopped(self, pid: int, status: int, decide: Decide) -> None:
        passed_on = 0
        if status >> 16 == _EVENT_SECCOMP:
            if self._decided(pid, decide) is Action.KILL:
                os.kill(self.pid, signal.SIGKILL)
                return
        elif status >> 16 == 0 and os.WSTOPSIG(status) not in (signal.SIGSTOP, signal.SIGTRAP):
            passed_on = os.WSTOPSIG(status)  # SIGSTOP is how a new thread begins.
        with contextlib.suppress(ProcessLookupError):  # Another thread ended the process meanwhile.
            _ptrace(_CONT, pid, 0, passed_on)

    def _decided(self, pid: int, decide: Decide) -> Action | int:
        registers = _Registers(pid, self._machine)
        name = self._names[_event_message(pid)]
        path = _path_of(pid, registers.argument(0)) if name in _BY_DESCRIPTOR else ""
        if name in _BY_DESCRIPTOR and not path.startswith("/"):
            return Action.GO_ON
        self.call_count += 1
        decision = decide(SystemCall(self.call_count, name, path))
        if not isinstance(decision, Action):
            registers.skip_call(decision)
        return decision


def traced(work: Callable[[], None]) -> Traced:
    """Forks a child that does the work under the filter, stopped until `run`. The child ends without cleaning up.

    The calling process must have one thread. TracerError on a machine that this module does not know.
    """
    machine = _machine()
    sys.stdout.flush()
    sys.stderr.flush()
    pid = os.fork()
    if pid == 0:
        try:
            _ptrace(_TRACEME, 0, 0, 0)
            os.kill(os.getpid(), signal.SIGSTOP)
            _install_filter(machine)
            work()
            os._exit(0)
        finally:
            os._exit(1)
    return Traced(pid)


def _machine() -> _Machine:
    name = platform.machine()
    if sys.platform != "linux" or name not in ("x86_64", "aarch64"):
        raise TracerError(f"the tracer knows Linux on x86_64 and aarch64, not {sys.platform} on {name}")
    return _X86_64 if name == "x86_64" else _AARCH64


def _install_filter(machine: _Machine) -> None:
    """From now on each changing call of this process and its threads stops it; the event's message is the number."""
    code = [
        (_LOAD, 0, 0, _OFFSET_ARCHITECTURE),
        (_JUMP_EQUAL, 1, 0, machine.architecture),
        (_RETURN, 0, 0, _RETURN_ALLOW),
    ]
    for name, number in machine.calls.items():
        trace = (_RETURN, 0, 0, _RETURN_TRACE | number)
        if name in _FLAGS:
            flags = _OFFSET_ARGUMENTS + 8 * _FLAGS[name]
            body = [(_LOAD, 0, 0, flags), (_JUMP_ANY_BIT, 1, 0, _OPEN_CREATES), (_RETURN, 0, 0, _RETURN_ALLOW), trace]
        else:
            body = [trace]
        code += [(_LOAD, 0, 0, _OFFSET_NUMBER), (_JUMP_EQUAL, 0, len(body), number), *body]
    code.append((_RETURN, 0, 0, _RETURN_ALLOW))
    instructions = (_Instruction * len(code))(*(_Instruction(*fields) for fields in code))
    program = _Program(len(code), instructions)
    for arguments in (
        (_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0),
        (_PR_SET_SECCOMP, _MODE_FILTER, ctypes.byref(program), 0, 0),
    ):
        if _libc.prctl(*arguments):
            raise TracerError(f"prctl {arguments[0]}: {os.strerror(ctypes.get_errno())}")


class _Registers:
    """The general registers of a stopped thread."""

    def __init__(self, pid: int, machine: _Machine) -> None:
        self._pid = pid
        self._machine = machine
        self._buffer = ctypes.create_string_buffer(8 * 40)
        self._vector = _Vector(ctypes.addressof(self._buffer), len(self._buffer))
        _ptrace(_GETREGSET, pid, _NT_PRSTATUS, ctypes.addressof(self._vector))

    def argument(self, place: int) -> int:
        value: int = struct.unpack_from("=q", self._buffer, 8 * self._machine.arguments[place])[0]
        return value

    def skip_call(self, error_number: int) -> None:
        """The call is not made, and answers this error."""
        struct.pack_into("=q", self._buffer, 8 * self._machine.result, -error_number)
        if self._machine.number is not None:
            struct.pack_into("=q", self._buffer, 8 * self._machine.number, -1)
        _ptrace(_SETREGSET, self._pid, _NT_PRSTATUS, ctypes.addressof(self._vector))
        if self._machine.number is None:
            number = ctypes.c_int(-1)
            vector = _Vector(ctypes.addressof(number), ctypes.sizeof(number))
            _ptrace(_SETREGSET, self._pid, _NT_ARM_SYSTEM_CALL, ctypes.addressof(vector))


def _path_of(pid: int, descriptor: int) -> str:
    try:
        return os.readlink(f"/proc/{pid}/fd/{descriptor & 0xFFFFFFFF}")
    except FileNotFoundError:
        return ""  # No such descriptor: the call will fail.


def _event_message(pid: int) -> int:
    message = ctypes.c_ulong()
    _ptrace(_GETEVENTMSG, pid, 0, ctypes.addressof(message))
    return message.value


def _wait_for_stop(pid: int) -> None:
    _, status = os.waitpid(pid, _WALL)
    if not os.WIFSTOPPED(status):
        raise TracerError(f"the child could not be traced; it ended with status {status:#x}")


def _ptrace(request: int, pid: int, address: int, data: int) -> None:
    if _libc.ptrace(request, pid, address, data) == -1:
        number = ctypes.get_errno()
        if number == errno.ESRCH:
            raise ProcessLookupError(number, os.strerror(number))
        raise TracerError(f"ptrace request {request:#x}: {os.strerror(number)}")
