"""The commands import and export.

importing, exporting: one table and one file. whole_store: all tables of a server and a folder.
formats: which format a file has, and files: its reader and writer, of csv_files, json_lines and parquet_files.
sources, targets: where the bytes come from and go to. batches: what readers yield. columns: the columns of a file.
The commands are imported at each start, so they import the others, which need pyarrow, when they run.
"""
