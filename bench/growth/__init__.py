"""How rates, latencies and sizes grow with the rows of a table and with the number of clients."""
