"""Plug-ins of the node: programs that register through a socket in a directory, and are called over it."""
