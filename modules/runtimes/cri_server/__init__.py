"""A CRI v1 server as every runtime inside edgecore needs it: socket, methods, registry, records on the disk, events.

`runtime_server` joins a runtime to the server. Nothing is imported here: each runtime imports what it uses.
"""
