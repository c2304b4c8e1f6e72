"""What a region answered to each request id, so that a request that comes again is not made again."""
