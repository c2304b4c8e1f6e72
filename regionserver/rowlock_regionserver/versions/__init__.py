"""Which cells a reader sees: the rule for one row, and its twin for columns."""
