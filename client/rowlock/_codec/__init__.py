"""Values, keys and columns as bytes and back; whole Arrow arrays at a time."""
