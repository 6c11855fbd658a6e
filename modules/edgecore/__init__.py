"""The edgecore process: its command line, its configuration, and the assembly of the modules of an edge
node."""
