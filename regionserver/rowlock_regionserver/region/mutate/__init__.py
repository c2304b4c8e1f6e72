"""Changes of rows."""
