"""The edgecore process: command line, configuration, and assembly of the modules of an edge node."""
