"""Explains why a pod does not run, or how it came to run, from what the API server, the node and its events say."""
