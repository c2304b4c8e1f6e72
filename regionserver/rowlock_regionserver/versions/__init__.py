"""Which cells a reader sees and which files must keep: the rules for one row, and their vector twins for columns."""
