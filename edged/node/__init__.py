"""The node: facts of the machine, registration, status and lease."""
