"""The order of writes: write numbers, stamps, the gate, row locks, and the commit."""
