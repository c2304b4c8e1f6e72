"""The gRPC front end: the only place that handles protobuf messages.

messages/ converts messages to values of operations.py (mutations.py, reads.py, filters.py), and values and errors back
to messages (answers.py, failures.py). services/ implements the three kinds of streams (conversation.py, scans.py,
bulk.py) and the unary calls. grpc/ has the server itself.
"""
