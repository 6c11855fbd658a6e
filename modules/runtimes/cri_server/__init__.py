"""The CRI v1 server around the engine of a runtime: its socket, the methods of CRI, and calls within this process.

`runtime_server` joins the engine to the server. Nothing is imported here: gRPC's library comes with the first client.
"""
