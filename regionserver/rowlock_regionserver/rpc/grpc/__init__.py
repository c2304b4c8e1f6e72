"""The gRPC server: its listener, calls, connections and limits."""
