"""Store files: immutable files, each with sorted cells of one family. docs/storefile_format.md describes the layout.

A file has up to three runs, each a Source: one of cells, one of lines, one of older lines.

format, info, metadata, bloom, row_digests             the contents of a file, as values
index, wide_index                                      the block indexes
block, wide_form, wide_directory, wide_encoding,
codecs                                                 the contents of a block
pieces, cutter, lines_cutter, cell_properties,
block_writer, container, background_sync, writer       writing
extents, block_file, chunk_reads                       reading from the disk
cell_blocks, large_values, cell_run                    the run of cells
wide_blocks, wide_block, wide_chunks, wide_lines,
block_keys, stored_block, wide_run                     a run of lines
row_filter, row_windows, adopted_numbers               what both kinds of runs use
clip, clipped_run, clipping                            files of which only some rows count
cache, open_files                                      bounded memory and descriptors, shared by all files
reader                                                 opens a file
verify, common_rows, salvage                           finding damage, and saving intact blocks
"""
