"""The channels and links of a client (threads). All are closed with the client, and channels also at a fork.

Servers, which makes calls, is built on it.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, TypeVar

import grpc
from rowlock_proto.v1 import catalog_pb2

from rowlock._codec.wire_errors import error_of_call
from rowlock._core.features import PROTOCOL
from rowlock._core.regions import RegionCache
from rowlock._core.retry import REPEATED_FOR_S, Kind
from rowlock._core.sequences import Sequences
from rowlock._core.session_requests import OwnSessions
from rowlock._transport import methods
from rowlock._transport.channels import Target, channel_options
from rowlock._transport.fork import check_usable, gate, keep_alive, note_disconnect, register
from rowlock._transport.links import ServerLink
from rowlock._transport.methods import Metadata, Method, folder_metadata
from rowlock._transport.stream import Answers, PointStream
from rowlock._transport.timeouts import Timeouts
from rowlock._uninterrupted import Uninterrupted
from rowlock.errors import ClosedError, DeadlineError, RowlockError, ServerUnavailableError
from rowlock.schema import Region

if TYPE_CHECKING:
    from rowlock.statistics import ClientStatistics

Q = TypeVar("Q")
A = TypeVar("A")

# How long opening a connection that is held open may take; the server waits for its first client a little longer.
_HOLD_OPEN_S = 5.0

# A call that has not ended so long after its deadline never will: grpc ends calls at their deadlines.
_STUCK_S = 5.0


class StuckChannelError(grpc.RpcError):
    """A call that did not end at its deadline, because nothing of its channel does any more.

    An exception of a signal handler can leave a lock of grpc's Python code held: see Uninterrupted, which only puts
    SIGINT off.
    """

    def __init__(self, timeout_s: float) -> None:
        super().__init__(f"the call did not end at its deadline, {timeout_s:g} s; the next one uses another connection")

    def code(self) -> grpc.StatusCode:
        return grpc.StatusCode.UNAVAILABLE

    def details(self) -> str:
        return str(self)

    def trailing_metadata(self) -> tuple[()]:
        return ()


class Connections:
    """Thread-safe. In the child of a fork it gets new channels, new links and a new client id."""

    def __init__(
        self, addresses: tuple[str, ...], *, is_held_open: bool = False, folder_id: str = "", is_direct: bool = True
    ) -> None:
        """is_held_open: keep a connection to the catalog's server open, even if it is not used.

        folder_id: the data folder that the servers must have; empty: any. is_direct: False: only ever use gRPC.
        """
        self.addresses = addresses
        self._folder_id = folder_id
        self.is_held_open = is_held_open
        self._is_direct = is_direct
        # Set when connecting; until then larger than any server's limit.
        self.request_bytes_max = 1 << 31
        self._is_closed = False
        # How long a change in doubt may be repeated; set when connecting, by what the server says.
        self.repeated_for_s = REPEATED_FOR_S
        # Which features each server has, by address: ServerInfoResponse.protocol.
        self.protocols: dict[str, int] = {}
        # What servers said of themselves when connecting, by address.
        self.infos: dict[str, catalog_pb2.ServerInfoResponse] = {}
        self._start()

    def _start(self) -> None:
        self.regions = RegionCache()
        self.sequences = Sequences()
        self.sessions = OwnSessions()
        self.timeouts = Timeouts()
        # Held while a region is looked up, and before self._lock. Reentrant, so that a thread that was interrupted can
        # release it without knowing whether it holds it.
        self._locating = threading.RLock()
        self._lock = threading.Lock()
        # Guarded by self._lock (reads of a single entry are not):
        self._channels: dict[str, grpc.Channel] = {}
        self._targets: dict[str, Target] = {}
        self._links: dict[tuple[str, str], ServerLink] = {}  # by server and data folder
        # The index of the address whose server answers for the catalog.
        self._chosen = 0

    @property
    def is_connected(self) -> bool:
        return bool(self._channels)

    @property
    def is_asyncio(self) -> bool:
        return False

    def before_fork(self) -> None:
        """Closes the connections of gRPC; parent and child open new ones when they need them."""
        self._disconnect(ServerUnavailableError("the process forked, and connections of gRPC don't survive that"))

    def after_fork_in_parent(self) -> None:
        if self.is_held_open and not self._is_closed:
            with contextlib.suppress(RowlockError):  # The next call finds that the server is gone.
                self.hold_open()

    def after_fork_in_child(self) -> None:
        for link in self._links.values():
            link.forget()
        keep_alive((self._channels, self._links, self.timeouts))
        self._start()

    def close(self) -> None:
        """Closes all links and channels. Idempotent."""
        self._is_closed = True
        reason = ClosedError("the client was closed while the call was under way")
        for link in self._all_links():
            link.close(reason)
        self._disconnect(reason)
        self.timeouts.close()

    def _all_links(self) -> list[ServerLink]:
        with self._lock:
            return list(self._links.values())

    def _disconnect(self, reason: RowlockError) -> None:
        for link in self._all_links():
            link.close_stream(reason)
        with Uninterrupted():  # Else those that are no longer in the lists would stay open.
            with self._lock:
                channels, targets = list(self._channels.values()), list(self._targets.values())
                self._channels, self._targets = {}, {}
            for channel in channels:
                channel.close()
            for target in targets:
                target.close()
        if channels:
            note_disconnect()

    @property
    def catalog_address(self) -> str:
        """The server that is used for the catalog."""
        return self.addresses[self._chosen]

    @property
    def catalog_protocol(self) -> int | None:
        """The count of features of that server; None: not known yet."""
        return self.protocols.get(self.catalog_address)

    def choose(self, address: str) -> None:
        """Uses this one of the addresses for the catalog from now on."""
        with self._lock:
            self._chosen = self.addresses.index(address)

    def _stop_using(self, address: str) -> None:
        """Uses the next address for the catalog, if this one is in use."""
        with self._lock:
            if self.addresses[self._chosen] == address:
                self._chosen = (self._chosen + 1) % len(self.addresses)

    def metadata(self, region: Region | None = None) -> Metadata:
        """Returns the metadata of a call: the data folder that its server must have, if one is required."""
        return folder_metadata(self._folder_of(region))

    def _folder_of(self, region: Region | None) -> str:
        return self._folder_id or (region.data_folder_id if region is not None else "")

    def channel(self, address: str) -> grpc.Channel:
        """Returns the channel to a server, opened at first use. Raises ClosedError if the client was closed."""
        channel = self._channels.get(address)
        if channel is not None:
            return channel
        with self._lock:
            if self._is_closed:
                raise ClosedError("the client was closed")
            channel = self._channels.get(address)
            if channel is None:
                check_usable()
                target = self._targets[address] = Target(address)
                channel = self._channels[address] = grpc.insecure_channel(target.name, options=channel_options())
                register(self)
        return channel

    def hold_open(self) -> None:
        """Keeps a connection to the catalog's server open from now on. Raises RowlockError if it does not answer."""
        self.link(self.catalog_address, self._folder_id).hold_open(time.monotonic() + _HOLD_OPEN_S)

    def statistics(self) -> ClientStatistics:
        """Returns how the point operations to each server travel."""
        from rowlock.statistics import ClientStatistics

        return ClientStatistics(tuple(link.statistics() for link in self._all_links()))

    def call_once(
        self,
        address: str,
        method: Method[Q, A],
        request: Q,
        timeout_s: float,
        region: Region | None = None,
        *,
        kind: Kind = Kind.READ,
    ) -> A:
        """Makes one unary call, without retries. region: the region that it is about, if any.

        Raises grpc.RpcError, or ClosedError if the client was closed meanwhile.
        """
        timeout_s = max(0.001, timeout_s)
        with gate.unrepeatable() if kind is Kind.PLAIN_CHANGE else gate:
            with Uninterrupted():
                call: grpc.UnaryUnaryMultiCallable[Q, A] = self.channel(address).unary_unary(
                    method.path, request_serializer=method.serialize, response_deserializer=method.parse
                )
                try:
                    # A future can be cancelled.
                    answer = call.future(request, timeout=timeout_s, metadata=self.metadata(region))
                except ValueError as failed:
                    # grpc raises it for a closed channel.
                    raise ClosedError("the client was closed") from failed
            with Uninterrupted(answer.cancel):
                # The process may be stopped for longer than a deadline; then grpc's thread needs a moment, too.
                for wait_s in (timeout_s, _STUCK_S):
                    with contextlib.suppress(grpc.FutureTimeoutError):
                        return answer.result(wait_s)
            self._forget_channel(address)
            raise StuckChannelError(timeout_s)

    def _forget_channel(self, address: str) -> None:
        """Makes the next call open another channel. This one can't be closed: that might block, too."""
        with self._lock:
            stuck = self._channels.pop(address, None), self._targets.pop(address, None)
        keep_alive(stuck)

    def link(self, address: str, folder_id: str) -> ServerLink:
        """Returns the link to a server."""
        link = self._links.get((address, folder_id))
        if link is not None:
            return link
        with self._lock:
            link = self._links.get((address, folder_id))
            if link is None:
                link = self._links[address, folder_id] = ServerLink(
                    address,
                    folder_id,
                    self.sequences,
                    partial(self._ask, address),
                    partial(self._new_stream, address, folder_id),
                    is_direct=self._is_direct,
                    is_closed=self._is_closed,
                )
                info = self.infos.get(address)
                if info is not None:
                    link.learn(info)
        return link

    def _ask(self, address: str, deadline: float) -> catalog_pb2.ServerInfoResponse:
        """Returns what the server says of itself. Raises RowlockError."""
        request = catalog_pb2.ServerInfoRequest(protocol=PROTOCOL)
        try:
            return self.call_once(address, methods.SERVER_INFO, request, deadline - time.monotonic())
        except grpc.RpcError as failed:
            error = error_of_call(failed, address)
        if isinstance(error, ServerUnavailableError):
            self._stop_using(address)
        if isinstance(error, DeadlineError):  # The call that needs the answer says what became of its change.
            raise ServerUnavailableError(error.message)
        raise error

    def _new_stream(self, address: str, folder_id: str) -> PointStream:
        def converse(messages: Iterator[bytes], received: Callable[[bytes], object]) -> Answers:
            call: Callable[..., Answers] = self.channel(address).stream_stream(
                methods.CONVERSE.path, request_serializer=methods.CONVERSE.serialize, response_deserializer=received
            )
            try:
                return call(messages, metadata=folder_metadata(folder_id))
            except ValueError as failed:
                # grpc raises it for a closed channel.
                raise ClosedError("the client was closed") from failed

        return PointStream(converse, address, self.sequences)

    @contextmanager
    def _single_lookup(self, table: str, row: bytes, deadline: float) -> Iterator[None]:
        """Lets one caller at a time look up regions; the others then find the answer in the cache.

        Raises DeadlineError if the turn does not come before the deadline.
        """
        try:
            # Within the try: Ctrl-C may come when the lock has just been taken.
            if not self._locating.acquire(timeout=max(0.0, deadline - time.monotonic())):
                raise DeadlineError(
                    f"timed out waiting for another call's lookup of a region of table {table!r}; retry",
                    table=table,
                    row=row,
                )
            yield
        finally:
            # Without a call in between, in which Ctrl-C could come.
            try:  # noqa: SIM105
                self._locating.release()
            except RuntimeError:  # It was not taken.
                pass
