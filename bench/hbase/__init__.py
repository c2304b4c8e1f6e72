"""rowlock beside a real HBase, in turns, in one run."""
