"""Benchmarks of rowlock from Spark, each against the same job on Parquet files, or against HBase's batch put.

Start reading at figures.py, which lists the figures and their targets.
"""
