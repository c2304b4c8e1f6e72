"""Broken builds of TCP's keepalive, by which each side of a direct connection finds that the other one is gone."""

from __future__ import annotations

from .broken_build import CLIENT, Mutant

KEEPALIVE = "unit/test_tcp_keepalive.py"
LISTENER = "unit/rpc/direct/test_listener.py"

KEEPALIVE_MUTANTS = [
    Mutant(
        "the peer of a direct connection is not probed",
        "DirectConnection.connection_made",
        '        probe_client(transport.get_extra_info("socket"))\n',
        "",
        f"{LISTENER}::test_the_system_probes_the_peers_of_tcp_connections_only",
    ),
    Mutant(
        "the client's system does not probe the server",
        "set_tcp_options",
        "    keep_alive(connected, _PROBED_S, _SILENT_S_MAX, bounds_unread=False)\n",
        "",
        f"{KEEPALIVE}::test_a_server_is_probed_and_need_not_read_what_was_sent",
        CLIENT,
    ),
    Mutant(
        "a server that reads nothing of a bulk batch for a while is lost",
        "set_tcp_options",
        "bounds_unread=False",
        "bounds_unread=True",
        f"{KEEPALIVE}::test_a_server_is_probed_and_need_not_read_what_was_sent",
        CLIENT,
    ),
    Mutant(
        "the asyncio face's TCP sockets lack their options",
        "_connected",
        "            connected = await _connect(family, where)\n        except OSError as error:\n"
        "            failure = error\n            continue\n        set_tcp_options(connected)\n",
        "            connected = await _connect(family, where)\n        except OSError as error:\n"
        "            failure = error\n            continue\n",
        f"{KEEPALIVE}::test_both_faces_probe_the_server",
        CLIENT,
    ),
]
