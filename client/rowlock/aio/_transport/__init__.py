"""The client's I/O with asyncio; modules have the names of their twins in `rowlock._transport`."""
