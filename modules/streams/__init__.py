"""The wire of KubeEdge's stream tunnel, which edgestream and cloudstream share. Pure: bytes in, values out.

`frames` is the frame of one websocket message; `connect` the JSON that opens a stream, and the headers of a request
that are passed on.
"""
