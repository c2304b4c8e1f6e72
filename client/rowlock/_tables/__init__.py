"""The parts that the public classes of tables and clients are made of."""
