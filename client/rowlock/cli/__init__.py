"""The command line `rowlock` and its shell."""
