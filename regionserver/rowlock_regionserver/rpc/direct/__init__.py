"""The direct connection: point operations in frames on a plain socket, on the same engine as gRPC."""
