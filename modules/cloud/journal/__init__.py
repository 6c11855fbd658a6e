"""The link journal: when each node was connected, and why a connection ended."""
