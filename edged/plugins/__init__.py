"""Plug-ins of the node: programs that register themselves through a socket in a directory, and are called over it."""
