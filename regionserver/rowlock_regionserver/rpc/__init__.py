"""The gRPC services: the only place that touches protobuf messages.

Messages become values of operations.py (changes.py, reads.py, filters.py), values and errors become messages again
(answers.py, failures.py); conversation.py, scans.py and bulk.py hold what the three kinds of streams need.
"""
