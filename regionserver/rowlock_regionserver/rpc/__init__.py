"""The front ends, by gRPC and by direct connections: the only place that handles protobuf messages.

messages/ converts messages to values of operations.py (mutations.py, reads.py, filters.py), and values and errors back
to messages (answers.py, failures.py). services/ has the methods of the services (region_service.py,
catalog_service.py, session_service.py) and the point stream (conversation.py); engine/ runs the streams of scans and
bulk batches. grpc/ has the server of gRPC, and direct/ the port of direct connections.
"""
