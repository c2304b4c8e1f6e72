"""A region: a half-open range of rows of one table, changed row by row and read at read points.

Read mutate/write_path.py first: it has the nine steps of a write. They use commit/mvcc.py, commit/row_locks.py and
commit/gate.py. flush.py and replay.py describe what happens to the cells and log records afterwards, and region.py has
the life cycle of a region.
"""
