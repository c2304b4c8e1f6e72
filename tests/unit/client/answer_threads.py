"""The threads of this process that wait for a server's answers: one for each stream that is open."""

from __future__ import annotations

import threading


def answer_threads() -> set[threading.Thread]:
    return {thread for thread in threading.enumerate() if thread.name == "rowlock answers"}
