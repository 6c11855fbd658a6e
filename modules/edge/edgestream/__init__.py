"""edgestream: the edge's side of the stream tunnel, for `kubectl logs`, `exec`, `attach` and metrics of this node.

`module` dials the cloud; `session` is one tunnel with its streams, and hands frames from the tunnel's thread to the
thread of the streams; `routes` has the requests that the cloud may make; `stream` is one connection to the node's own
server.
"""
