"""Where direct connections are taken, and which addresses clients get: from the options of the server."""

from __future__ import annotations

from dataclasses import dataclass

from rowlock_regionserver.rpc.addresses import Address, AnyAddress, ListenError, check_reach

OFF = "off"
# The name of the socket in a data folder.
SOCKET = "direct"
_PORT_MAX = 65_535
# From the port of --listen to the default one here. Far, so that servers may listen on ports one after the other.
_PORT_DISTANCE = 10_000


@dataclass(frozen=True, slots=True)
class DirectPlan:
    """Where to listen, and what to announce.

    address: the TCP address; None: none. is_address_required: it was asked for; otherwise a free port will do.
    advertise: the TCP address for clients, if it is another one. has_socket: a Unix socket in the data folder, too.
    """

    address: Address | None = None
    is_address_required: bool = False
    advertise: Address | None = None
    has_socket: bool = False


def direct_plan(
    direct: str | None, advertise_direct: str | None, listen: AnyAddress | None, advertise: AnyAddress | None
) -> DirectPlan:
    """Returns the plan for these options of the server. Raises ListenError if they make no sense.

    direct: HOST:PORT, `off`, or None for the default. listen: the address of gRPC; None: a socket in the folder.
    advertise: that for clients, if it is another one.
    """
    advertised = Address.parse(advertise_direct) if advertise_direct is not None else None
    if direct == OFF or (direct is None and advertise is not None and advertised is None):
        # Where clients reach gRPC by another way, only the operator knows a way for direct connections.
        if advertised is not None:
            raise ListenError(
                "an address for direct connections is advertised, but they are off; leave one of both out"
            )
        return DirectPlan()
    if direct is not None:
        return DirectPlan(Address.parse(direct), True, advertised, has_socket=advertise is None and advertised is None)
    if not isinstance(listen, Address):
        if advertised is not None:
            raise ListenError("--advertise-direct needs a port; choose one with --direct HOST:PORT")
        return DirectPlan(has_socket=True)
    port = listen.port + _PORT_DISTANCE if 0 < listen.port <= _PORT_MAX - _PORT_DISTANCE else 0
    if advertised is not None and not port:
        raise ListenError("--advertise-direct needs a port that stays; choose one with --direct HOST:PORT")
    return DirectPlan(
        Address(listen.host, port),
        advertised is not None,
        advertised,
        has_socket=advertise is None and advertised is None,
    )


def check_plan(plan: DirectPlan, *, is_insecure: bool) -> None:
    """Raises ListenError if the address is open to other machines, or a bare wildcard. Blocks for a name lookup."""
    if plan.address is not None:
        check_reach(
            plan.address,
            plan.advertise,
            is_insecure=is_insecure,
            listen_option="--direct",
            advertise_option="--advertise-direct",
        )
