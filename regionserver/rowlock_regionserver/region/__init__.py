"""A region: a half-open range of rows of one table, changed row by row and read at read points.

Read write_path.py first: it holds the nine steps of a write. mvcc.py, row_locks.py and gate.py are the three things
that it stands on; flush.py and replay.py are what becomes of its records and cells afterwards.
"""
