"""What rowlock costs from Spark, each figure against the same job on Parquet files, or against HBase's batch put.

Start reading at figures.py, which lists what is measured and what it should be.
"""
