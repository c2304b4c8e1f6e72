"""A region's idempotency table: the answer to each request id, so that a repeated request is not applied again."""
