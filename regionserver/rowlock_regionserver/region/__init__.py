"""A region: a half-open range of rows of one table, changed row by row and read at read points.

Read mutate/write_path.py first: it has the nine steps of a write. They use commit/mvcc.py, commit/row_locks.py and
commit/gate.py. flush.py writes the cells to store files, region_replay.py restores them from the log, and region.py has
the life cycle of a region.
"""
