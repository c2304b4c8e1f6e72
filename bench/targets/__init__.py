"""What is measured and what it is measured against: rowlock, and raw gRPC, Arrow and file calls.

store.py is the seam for other row stores: whoever implements RowStore can be given to every workload on rows.
"""
