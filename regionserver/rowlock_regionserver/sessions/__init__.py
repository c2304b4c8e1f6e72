"""Sessions: what clients have on the server for longer than one call, and when it ends. docs/sessions.md."""
