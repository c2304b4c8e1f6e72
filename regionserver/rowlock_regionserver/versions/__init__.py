"""Which cells a reader sees: the rule for one row, and its vector twin for columns."""
