"""YCSB's core workloads by processes of one shape, for rowlock and for the systems it is compared with."""
