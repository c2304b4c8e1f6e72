"""Admission of requests, in plain values: bounds, deadlines, event loop or worker thread, coalesced puts.

A front end (rpc/) turns its messages into requests that interfaces.py describes, and sends the encoded answers. This
package knows no protocol, so a second front end copies nothing.
"""
