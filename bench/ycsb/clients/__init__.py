"""The clients of the systems, each a module with `connect(address, table, thread_count)`."""
