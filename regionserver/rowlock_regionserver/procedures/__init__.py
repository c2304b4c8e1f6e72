"""Row procedures: an operator's code, called by name for one row. docs/procedures.md is for those who write one.

A procedure runs in a process of its own (child.py), which the server starts and kills (child_process.py). The two speak
in messages (messages.py). The region that has the row calls it under the row's lock
(region/mutate/procedure_calls.py).

This module imports only what a procedure needs, so that its process is small.
"""

from rowlock_regionserver.procedures.procedure_table import ProcedureTable

__all__ = ["ProcedureTable"]
