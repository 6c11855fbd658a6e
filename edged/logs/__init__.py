"""The logs of containers: reading, rotation, and termination messages."""
