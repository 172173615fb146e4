"""Sources of data: what a stream is made from."""
