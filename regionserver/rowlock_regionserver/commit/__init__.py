"""The order of writes: write numbers, stamps, locks."""
