"""Store files: one immutable file of one family's sorted cells each. Format, writer and reader are three modules.

format: sealed values. container, cutter, sorting, writer: how a file is made. index, metadata, info, bloom: what is known
of it. extents, block, row_windows, cache, reader: how it is read. verify, salvage: what is left of a damaged one.
"""
