"""Broken builds of scans on direct connections of their own: the client's side."""

from __future__ import annotations

from .broken_build import CLIENT, Mutant

THREADS = "unit/client/test_direct_scan.py"
TASKS = "unit/client/test_direct_scan_of_tasks.py"
LINKS = "unit/client/blocking/test_links.py"

DIRECT_SCANS = [
    Mutant(
        "a thread that ends a direct scan closes the socket that another one uses",
        "DirectScan.cancel",
        "                    self._socket.shutdown(socket.SHUT_RDWR)\n                if not self._is_in_use:\n",
        "                    self._socket.shutdown(socket.SHUT_RDWR)\n                if True:\n",
        f"{THREADS}::test_the_thread_that_receives_closes_the_socket_of_a_scan_that_is_cancelled",
        CLIENT,
    ),
    Mutant(
        "a socket is closed while another thread shuts it down",
        "DirectScan._using",
        "                with self._closing:\n                    self._socket.close()\n",
        "                self._socket.close()\n",
        f"{THREADS}::test_the_socket_is_not_closed_while_another_thread_shuts_it_down",
        CLIENT,
    ),
    Mutant(
        "a direct scan waits for ever for a server that vanished",
        "DirectScan._received",
        "        silent_until = time.monotonic() + silent_s_max()\n        while self._end is None:\n",
        "        silent_until = deadline\n        while self._end is None:\n",
        f"{THREADS}::test_a_server_that_is_silent_is_lost",
        CLIENT,
    ),
    Mutant(
        "a task that is cancelled while it begins a direct scan leaves the socket open",
        "DirectScan.begin",
        "                    await self._loop.sock_sendall(self._socket, request)\n        except BaseException:\n",
        "                    await self._loop.sock_sendall(self._socket, request)\n        except Exception:\n",
        f"{TASKS}::test_a_task_that_is_cancelled_while_it_sends_closes_the_socket",
        CLIENT,
    ),
    Mutant(
        "a client that only scans does not notice that the server was restarted",
        "PointLink.open_for_scan",
        "            direct.look()\n",
        "            pass\n",
        f"{LINKS}::test_a_client_that_only_scans_finds_a_restarted_server",
        CLIENT,
    ),
]
