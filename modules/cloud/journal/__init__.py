"""The journal of what has happened to the fleet: when each node was connected, and why a connection ended."""
