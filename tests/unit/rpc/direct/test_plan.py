"""Where direct connections are taken, by the options of the server, and which addresses clients get."""

from __future__ import annotations

import pytest
from rowlock_regionserver.rpc.addresses import Address, AnyAddress, ListenError, parsed_address
from rowlock_regionserver.rpc.direct.plan import DirectPlan, check_plan, direct_plan

LOCAL = Address("127.0.0.1", 7460)
OTHER = Address("10.0.0.5", 7000)
SOCKET = parsed_address("unix:/run/rowlock")


@pytest.mark.parametrize(
    ("direct", "advertise_direct", "listen", "advertise", "plan"),
    [
        # By default the port 10,000 above, or a free one, and the socket.
        (None, None, LOCAL, None, DirectPlan(Address("127.0.0.1", 17460), has_socket=True)),
        (None, None, Address("h", 0), None, DirectPlan(Address("h", 0), has_socket=True)),
        (None, None, Address("h", 55535), None, DirectPlan(Address("h", 65535), has_socket=True)),
        (None, None, Address("h", 55536), None, DirectPlan(Address("h", 0), has_socket=True)),
        # No port where gRPC has none.
        (None, None, None, None, DirectPlan(has_socket=True)),
        (None, None, SOCKET, None, DirectPlan(has_socket=True)),
        # Another way to gRPC says nothing of the way here.
        (None, None, LOCAL, OTHER, DirectPlan()),
        (None, "10.0.0.5:7001", LOCAL, OTHER, DirectPlan(Address("127.0.0.1", 17460), True, Address("10.0.0.5", 7001))),
        # As requested.
        ("off", None, LOCAL, None, DirectPlan()),
        ("off", None, None, None, DirectPlan()),
        ("127.0.0.1:9", None, LOCAL, None, DirectPlan(Address("127.0.0.1", 9), True, has_socket=True)),
        ("127.0.0.1:9", None, None, None, DirectPlan(Address("127.0.0.1", 9), True, has_socket=True)),
        ("127.0.0.1:9", None, LOCAL, OTHER, DirectPlan(Address("127.0.0.1", 9), True)),
        ("0.0.0.0:9", "h:10", LOCAL, None, DirectPlan(Address("0.0.0.0", 9), True, Address("h", 10))),
    ],
)
def test_the_plan_follows_the_options(
    direct: str | None,
    advertise_direct: str | None,
    listen: AnyAddress | None,
    advertise: AnyAddress | None,
    plan: DirectPlan,
) -> None:
    assert direct_plan(direct, advertise_direct, listen, advertise) == plan


@pytest.mark.parametrize(
    ("direct", "advertise_direct", "listen"),
    [
        ("nonsense", None, LOCAL),
        ("unix:/x", None, LOCAL),
        ("off", "h:1", LOCAL),
        (None, "h:1", SOCKET),
        (None, "h:1", None),
        (None, "nonsense", LOCAL),
        (None, "h:1", Address("h", 0)),
        (None, "h:1", Address("h", 55536)),
    ],
)
def test_options_that_make_no_sense_are_refused(
    direct: str | None, advertise_direct: str | None, listen: AnyAddress | None
) -> None:
    with pytest.raises(ListenError):
        direct_plan(direct, advertise_direct, listen, None)


def test_an_address_that_other_machines_reach_needs_insecure() -> None:
    plan = DirectPlan(Address("10.1.2.3", 9), True)
    with pytest.raises(ListenError, match="use --direct"):
        check_plan(plan, is_insecure=False)
    check_plan(plan, is_insecure=True)
    check_plan(DirectPlan(Address("127.0.0.1", 9)), is_insecure=False)
    check_plan(DirectPlan(), is_insecure=False)


def test_a_wildcard_needs_an_address_for_clients() -> None:
    with pytest.raises(ListenError, match="--advertise-direct"):
        check_plan(DirectPlan(Address("0.0.0.0", 9), True), is_insecure=True)
    check_plan(DirectPlan(Address("0.0.0.0", 9), True, Address("h", 9)), is_insecure=True)
