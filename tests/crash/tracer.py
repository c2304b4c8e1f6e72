"""Stops a child process before each of its changing system calls, and kills it or alters the call: ptrace by ctypes.

    child = traced(work)                  # forks; `work` runs with the filter installed, under the tracer
    child.run(lambda call: KILL if call.number == 17 else GO_ON)

A seccomp filter in the child selects the system calls that change files, so that all others run at full speed. ptrace
stops the child before each selected call, in any thread, also when a C library makes it. Linux on x86_64 and aarch64.
The tracer needs no rights beyond those over its own child, no compiler and no strace.
"""

from __future__ import annotations

import contextlib
import ctypes
import enum
import errno
import os
import signal
import struct
import sys
from collections.abc import Callable
from dataclasses import dataclass

from tests.crash.system_calls import BY_DESCRIPTOR, FLAGS, WRITES, Machine, TracerError, this_machine
from tests.ending import end_at_once

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


class Action(enum.Enum):
    """The action on a stopped call; a positive errno makes the call fail with it."""

    GO_ON = enum.auto()
    KILL = enum.auto()  # the whole process, before the call is made
    SHORTEN = enum.auto()  # a write writes half of what it was given; every other call goes on


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
        self._machine = this_machine()
        self._names = {number: name for name, number in self._machine.calls.items()}
        self.pid = pid
        self.call_count = 0

    def run(self, decide: Decide) -> int:
        """Runs the child to its end; returns its wait status. Calls `decide` before each changing call.

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
        with contextlib.suppress(ProcessLookupError):  # Another thread ended the process meanwhile.
            if status >> 16 == _EVENT_SECCOMP:
                if self._decided(pid, decide) is Action.KILL:
                    os.kill(self.pid, signal.SIGKILL)
                    return
            elif status >> 16 == 0 and os.WSTOPSIG(status) not in (signal.SIGSTOP, signal.SIGTRAP):
                passed_on = os.WSTOPSIG(status)  # SIGSTOP is how a new thread begins.
            _ptrace(_CONT, pid, 0, passed_on)

    def _decided(self, pid: int, decide: Decide) -> Action | int:
        registers = _Registers(pid, self._machine)
        name = self._names[_event_message(pid)]
        path = _path_of(pid, registers.argument(0)) if name in BY_DESCRIPTOR else ""
        if name in BY_DESCRIPTOR and not path.startswith("/"):
            return Action.GO_ON
        self.call_count += 1
        decision = decide(SystemCall(self.call_count, name, path))
        if not isinstance(decision, Action):
            registers.skip_call(decision)
        elif decision is Action.SHORTEN and name in WRITES:
            registers.shorten_write()
        return decision


def traced(work: Callable[[], None]) -> Traced:
    """Forks a child that does the work under the filter, stopped until `run`. The child ends without cleaning up.

    The calling process must have one thread. TracerError on a machine that this module does not know.
    """
    machine = this_machine()
    sys.stdout.flush()
    sys.stderr.flush()
    pid = os.fork()
    if pid == 0:
        try:
            _ptrace(_TRACEME, 0, 0, 0)
            os.kill(os.getpid(), signal.SIGSTOP)
            _install_filter(machine)
            work()
            end_at_once(0)
        finally:
            end_at_once(1)
    return Traced(pid)


def _install_filter(machine: Machine) -> None:
    """Makes each changing call of this process and its threads stop it; the event's message is the call's number."""
    code = [
        (_LOAD, 0, 0, _OFFSET_ARCHITECTURE),
        (_JUMP_EQUAL, 1, 0, machine.architecture),
        (_RETURN, 0, 0, _RETURN_ALLOW),
    ]
    for name, number in machine.calls.items():
        trace = (_RETURN, 0, 0, _RETURN_TRACE | number)
        if name in FLAGS:
            flags = _OFFSET_ARGUMENTS + 8 * FLAGS[name]
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
    """Access to the general registers of a stopped thread."""

    def __init__(self, pid: int, machine: Machine) -> None:
        self._pid = pid
        self._machine = machine
        self._buffer = ctypes.create_string_buffer(8 * 40)
        self._vector = _Vector(ctypes.addressof(self._buffer), len(self._buffer))
        _ptrace(_GETREGSET, pid, _NT_PRSTATUS, ctypes.addressof(self._vector))

    def argument(self, place: int) -> int:
        value: int = struct.unpack_from("=q", self._buffer, 8 * self._machine.arguments[place])[0]
        return value

    def shorten_write(self) -> None:
        """Halves the bytes, or the pieces of a gathering write; at least one remains."""
        half = max(1, self.argument(2) // 2)
        struct.pack_into("=q", self._buffer, 8 * self._machine.arguments[2], half)
        _ptrace(_SETREGSET, self._pid, _NT_PRSTATUS, ctypes.addressof(self._vector))

    def skip_call(self, error_number: int) -> None:
        """Skips the call and makes it return this error."""
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
