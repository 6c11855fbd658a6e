"""The state of nodes that outlives their connections: the versions that they have acknowledged, and their epochs."""
