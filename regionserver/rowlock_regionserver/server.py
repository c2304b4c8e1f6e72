"""A region server process: a data folder, the regions in it, and the listeners before them, gRPC's and the direct one.

Start; when a step fails, the steps before it are undone:

1. Bind the addresses. Nothing was changed yet if that fails. (Sockets in the folder are bound after step 2.)
2. Lock the folder (data_folder.py), and make it if it is missing.
3. Refuse calls with SERVER_RECOVERING, and answer health checks with NOT_SERVING.
4. Recover the regions from the folder.
5. Accept clients. The server is ready.

Stop; every acknowledged change is safe at each point:

1. Refuse new calls with SERVER_STOPPING.
2. Answer active requests; end streams. From here on no thread waits for disk space.
3. Flush, sync, close the log. Regions without space for a flush stay in the log, and are reported.
4. Release the folder.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import threading
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import TracebackType

from rowlock_regionserver.clock import Clock
from rowlock_regionserver.config import Config
from rowlock_regionserver.data_folder import DataFolder
from rowlock_regionserver.embedded import SOCKET, AddressFile, Presence
from rowlock_regionserver.engine.engine import Engine, EngineStatistics
from rowlock_regionserver.engine.workers import Workers
from rowlock_regionserver.files import Files
from rowlock_regionserver.host.region_server import RegionServer
from rowlock_regionserver.host.self_check import SelfCheck
from rowlock_regionserver.host.server_statistics import RegionServerStatistics
from rowlock_regionserver.host.stopping import Unflushed
from rowlock_regionserver.ledger import Ledger
from rowlock_regionserver.memory_limit import memory_limit
from rowlock_regionserver.memory_plan import planned
from rowlock_regionserver.procedures.installed import installed_procedures
from rowlock_regionserver.procedures.runner import ProcedureRunner
from rowlock_regionserver.process_limits import limit_advice
from rowlock_regionserver.resident import anonymous_bytes
from rowlock_regionserver.rpc.addresses import Address, AnyAddress, UnixAddress, checked_listen, parsed_address
from rowlock_regionserver.rpc.direct import ready_selector
from rowlock_regionserver.rpc.direct.clients import DirectClients
from rowlock_regionserver.rpc.direct.drop_log import DropLog
from rowlock_regionserver.rpc.direct.listener import DirectListener, DirectStatistics
from rowlock_regionserver.rpc.direct.plan import check_plan, direct_plan
from rowlock_regionserver.rpc.direct.service import DirectService
from rowlock_regionserver.rpc.direct.turn import Turn
from rowlock_regionserver.rpc.grpc.calls import Calls
from rowlock_regionserver.rpc.grpc.connections import Connections
from rowlock_regionserver.rpc.grpc.listener import CATALOG, REGION_SERVICE, SESSIONS, Listener
from rowlock_regionserver.rpc.grpc.receiving import ReceiveWatch, senders, unix_senders
from rowlock_regionserver.rpc.services.catalog_service import CatalogService
from rowlock_regionserver.rpc.services.change_calls import ChangeCalls
from rowlock_regionserver.rpc.services.region_service import RegionService, RegionServiceStatistics
from rowlock_regionserver.rpc.services.session_service import SessionService
from rowlock_regionserver.rpc.services.status_service import CallCounts, StatusService

# How long active calls may take to end when the server stops.
STOP_GRACE_SECONDS = 10.0
_CHECK_DISK = "check the disk and the folder's permissions"


def end_process(error: BaseException) -> None:
    """Ends the process at once, so that nothing is acknowledged after a failed sync."""
    cause = str(error) or type(error).__name__
    message = (
        f"rowlock-server: ending at once, because a file of the data could not be written: {cause}; acknowledged "
        f"writes are in the log: {limit_advice(error) or _CHECK_DISK}, then start the server again"
    )
    with contextlib.suppress(OSError):
        os.write(sys.stderr.fileno(), f"{' '.join(message.split())}\n".encode(errors="backslashreplace"))
    os._exit(3)


def end_after_breach(error: BaseException) -> None:
    """Ends the process at once, with the traceback: a broken invariant means that no answer can be trusted."""
    trace = "".join(traceback.format_exception(error))
    message = f"{trace}rowlock-server: ending at once, because ROWLOCK_VERIFY=1 found an invariant broken\n"
    with contextlib.suppress(OSError):
        os.write(sys.stderr.fileno(), message.encode(errors="backslashreplace"))
    os._exit(1)


def _set_from_thread(loop: asyncio.AbstractEventLoop, event: asyncio.Event) -> None:
    with contextlib.suppress(RuntimeError):  # The loop is closed: the server has stopped already.
        loop.call_soon_threadsafe(event.set)


def _call_counts(calls: Calls, engine: Engine, regions: RegionService, direct: DirectClients) -> CallCounts:
    return CallCounts(
        connections=calls.connections.count + direct.open_count,
        calls=calls.open_count,
        scans=engine.scans.statistics().open_count,
        conversations=regions.statistics().conversations_open + direct.conversation_count,
    )


@dataclass(frozen=True, slots=True)
class ServerStatistics:
    """The server at a moment."""

    region_server: RegionServerStatistics
    engine: EngineStatistics
    region_service: RegionServiceStatistics
    direct: DirectStatistics


class Server:
    """A server on a folder. Its event loop has a thread of its own; every method may be called from any thread."""

    def __init__(
        self,
        folder: Path | str,
        *,
        listen: str | None = "127.0.0.1:0",
        advertise: str | None = None,
        direct: str | None = None,
        advertise_direct: str | None = None,
        is_insecure: bool = False,
        linger_seconds: float | None = None,
        is_self_checking: bool = False,
        config: Config | None = None,
        clock: Clock | None = None,
        files: Files | None = None,
        on_fatal: Callable[[BaseException], None] = end_process,
    ) -> None:
        """Does nothing yet; see `start`.

        `listen`: HOST:PORT, where port 0 lets the system choose, or unix:PATH; None: a socket in the folder. Hosts
        other than loopback, and a folder that other users own or may write to, need `is_insecure`. `advertise`: the
        address for clients. `direct`, `advertise_direct`: the same for direct connections (rpc/direct/plan.py), or
        `off`; None: beside `listen`. `linger_seconds`: an embedded server, which stops this long after the last client.
        `is_self_checking`: see host/self_check.py. `on_fatal` is called when a sync has failed, and must end the
        process. Raises ValueError if a procedure that the configuration names is not installed.
        """
        self._path = Path(folder)
        self._listen = parsed_address(listen) if listen is not None else None
        self._advertise = parsed_address(advertise) if advertise is not None else None
        self._direct_plan = direct_plan(direct, advertise_direct, self._listen, self._advertise)
        self._is_insecure = is_insecure
        self._linger_seconds = linger_seconds
        self._is_self_checking = is_self_checking
        self._config = config or planned({}, memory_limit())
        self._procedures = installed_procedures(self._config.procedures)
        self._clock = clock or Clock()
        self._files = files or Files()
        self._on_fatal = on_fatal
        self._thread = threading.Thread(target=self._run, name="server")
        self._started = threading.Event()  # or failed to
        self._stop_lock = threading.Lock()
        # Guarded by self._stop_lock:
        self._is_stop_asked = False
        self._ask_loop_to_stop: Callable[[], None] | None = None
        # Written by the server's thread before it sets _started or ends.
        self._error: BaseException | None = None
        self._address: AnyAddress | None = None
        self._region_server: RegionServer | None = None
        self._unflushed: list[Unflushed] = []
        self._engine: Engine | None = None
        self._region_service: RegionService | None = None
        self._direct: DirectListener | None = None

    @property
    def address(self) -> str:
        """HOST:PORT where it listens, with the real port, or unix:PATH."""
        assert self._address is not None, "the server has not started"
        return str(self._address)

    @property
    def region_server(self) -> RegionServer:
        """The regions of a server that has started; for tests and measurements in the same process."""
        assert self._region_server is not None, "the server has not started"
        return self._region_server

    def start(self) -> Server:
        """Starts the server. Returns when it accepts clients; blocks for the recovery.

        Raises ListenError, DataFolderError, CorruptionError or OSError.
        """
        self._thread.start()
        self._started.wait()
        if self._error is not None:
            self._thread.join()
            raise self._error
        return self

    def ask_to_stop(self) -> None:
        """Begins an orderly stop, and doesn't wait for it. A server that is starting stops when it has started."""
        with self._stop_lock:
            self._is_stop_asked = True
            if self._ask_loop_to_stop is not None:
                self._ask_loop_to_stop()

    def wait(self) -> None:
        """Blocks until the server has stopped, if it was started. Raises the error that ended it, if any."""
        if self._thread.ident is not None:
            self._thread.join()
        if self._error is not None:
            raise self._error

    @property
    def startup_report(self) -> str:
        """Problems of the opened folder that an operator should know; empty if there are none."""
        return self._region_server.startup_report() if self._region_server is not None else ""

    @property
    def unflushed(self) -> list[Unflushed]:
        """The regions that a stopped server could not flush for lack of space."""
        return self._unflushed

    def stop(self) -> None:
        """Stops in order: answers active requests, flushes acknowledged writes. Blocks until that is done."""
        self.ask_to_stop()
        self.wait()

    def statistics(self) -> ServerStatistics:
        """The statistics of a server that has started."""
        assert self._engine is not None, "the server has not started"
        assert self._region_service is not None, "the server has not started"
        assert self._direct is not None, "the server has not started"
        return ServerStatistics(
            self.region_server.statistics(),
            self._engine.statistics(),
            self._region_service.statistics(),
            self._direct.statistics(),
        )

    def __enter__(self) -> Server:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _run(self) -> None:
        try:
            ready_selector.run(self._serve)
        except BaseException as error:
            self._error = error
        finally:
            self._started.set()

    async def _serve(self, selector: ready_selector.ReadySelector) -> None:
        loop = asyncio.get_running_loop()
        stopping = asyncio.Event()
        with self._stop_lock:
            self._ask_loop_to_stop = lambda: _set_from_thread(loop, stopping)
            if self._is_stop_asked:
                stopping.set()
        presence = Presence(self._linger_seconds, stopping.set)
        async with contextlib.AsyncExitStack() as undo:
            listener = Listener(self._config, is_unix=not isinstance(self._listen, Address))
            undo.push_async_callback(listener.abandon)
            if self._listen is not None:
                self._address = await self._bind(listener, self._listen)
            direct_port = DirectListener(self._direct_plan)
            undo.push_async_callback(direct_port.close, 0.0)
            await loop.run_in_executor(None, self._bind_direct, direct_port)
            folder = await loop.run_in_executor(None, self._take_folder)
            undo.callback(folder.close)
            # The folder's next server may make a socket of the same name: ours is removed before that.
            undo.push_async_callback(listener.abandon)
            undo.push_async_callback(direct_port.close, 0.0)
            AddressFile(folder.path, self._files).remove()
            direct_port.bind_socket(folder.path, allows_other_users=self._is_insecure)
            if self._listen is None:
                self._address = await self._bind(listener, UnixAddress(folder.path / SOCKET))
            # Measured before clients can connect: requests during the recovery are not the process's own memory.
            ledger = Ledger(self._config, own_bytes=anonymous_bytes())
            calls = Calls(self._config, ledger, presence.counter(), data_folder_id=folder.folder_id)
            await listener.start(calls)
            region_server = await loop.run_in_executor(None, self._recover, folder, ledger)
            region_server.pacing.idle_seconds = selector.idle_seconds
            undo.callback(lambda: self._unflushed.extend(region_server.stop()))
            if self._is_self_checking:
                checking = SelfCheck(region_server, end_after_breach)
                checking.start()
                undo.callback(checking.stop)
            procedures = ProcedureRunner(self._procedures, self._config, self._clock)
            undo.callback(procedures.stop)
            await loop.run_in_executor(None, procedures.start)
            workers = Workers(self._config.worker_threads, self._config.procedure_processes)
            undo.callback(workers.stop)
            self._region_server = region_server
            clients = DirectClients(self._config, self._clock, presence.counter())
            engine = Engine(
                region_server,
                workers,
                self._config,
                self._clock,
                ledger,
                lambda: calls.open_count + clients.open_count,
                procedures,
            )
            regions = RegionService(region_server, engine, calls, self._config)
            self._engine, self._region_service, self._direct = engine, regions, direct_port
            ids = folder.folder_id, region_server.incarnation_id
            turn, drops = Turn(engine.points, lambda: selector.ready_count), DropLog(self._clock)
            direct = DirectService(engine.points, turn, ledger, clients, drops, *ids, regions.serve_scan, regions.bulk)
            direct_port.start(direct)
            catalog = CatalogService(
                region_server,
                workers,
                self._advertised_address(),
                folder.folder_id,
                self._config,
                direct_port.announcement(),
                procedures.names,
            )
            status = StatusService(
                region_server,
                workers,
                ledger,
                folder.path,
                self._files,
                self._clock,
                ids,
                partial(_call_counts, calls, engine, regions, clients),
                procedures.statistics,
            )
            sessions = SessionService(region_server, engine)
            changes = ChangeCalls(region_server, workers, ledger, self._config)
            calls.serve(
                {
                    CATALOG: catalog.methods() | status.methods(),
                    REGION_SERVICE: regions.methods() | changes.methods(),
                    SESSIONS: sessions.methods(),
                }
            )
            watch = self._watch(ledger, listener, calls.connections)
            undo.callback(watch.stop)
            await self._serve_clients(listener, folder, presence, stopping)
            calls.stop()
            regions.stop()
            direct_port.stop()
            engine.stop()
            region_server.stop_waiting_for_space()
            await asyncio.gather(
                direct_port.close(STOP_GRACE_SECONDS), listener.close(presence.is_idle, STOP_GRACE_SECONDS)
            )
            # From here on the loop has no work, so it may be blocked.

    async def _bind(self, listener: Listener, listen: AnyAddress) -> AnyAddress:
        checked = await asyncio.get_running_loop().run_in_executor(
            None, checked_listen, listen, self._advertise, self._is_insecure
        )
        return listener.bind(checked, allows_other_users=self._is_insecure)

    def _bind_direct(self, direct_port: DirectListener) -> None:
        check_plan(self._direct_plan, is_insecure=self._is_insecure)
        direct_port.bind_tcp()

    def _advertised_address(self) -> str:
        """The address for clients; empty for a socket, whose path may differ between clients."""
        if self._advertise is not None:
            return str(self._advertise)
        return "" if isinstance(self._address, UnixAddress) else self.address

    def _take_folder(self) -> DataFolder:
        return DataFolder.open(self._path, self._files, is_shared=self._is_insecure)

    def _recover(self, folder: DataFolder, ledger: Ledger) -> RegionServer:
        return RegionServer.open(folder.path, self._config, self._clock, self._files, self._on_fatal, ledger)

    def _watch(self, ledger: Ledger, listener: Listener, connections: Connections) -> ReceiveWatch:
        """Starts the watch over bytes that clients send."""
        if isinstance(self._address, Address):
            watch = ReceiveWatch(ledger, partial(senders, self._address.port, connections))
        else:
            watch = ReceiveWatch(ledger, partial(unix_senders, listener.socket_path, ledger))
        watch.start()
        return watch

    async def _serve_clients(
        self, listener: Listener, folder: DataFolder, presence: Presence, stopping: asyncio.Event
    ) -> None:
        """Serves clients until a stop is requested."""
        await listener.open()
        address_file = AddressFile(folder.path, self._files)
        if self._linger_seconds is not None:
            address_file.write(self.address)
        else:
            folder.note_address(self.address)
        presence.begin()
        self._started.set()
        await stopping.wait()
        address_file.remove()
