"""The journals: when each node was connected and why a connection ended, and who changed which object."""
