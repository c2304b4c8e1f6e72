"""Other stores beside rowlock, each a module with `PEER`: Redis, PostgreSQL and etcd, where they are installed."""
