"""The systems that are measured: rowlock, and as baselines raw gRPC, Arrow and file calls.

store.py is the interface for other row stores: every workload on rows can run on an implementation of RowStore.
"""
