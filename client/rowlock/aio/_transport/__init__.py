"""Where the client does I/O with asyncio; the same names as in `rowlock._transport`."""
