"""What is kept of nodes between connections: the versions that they have acknowledged, and their epochs."""
