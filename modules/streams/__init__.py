"""The part that edgestream and cloudstream share: the wire of KubeEdge's stream tunnel, and the wait for streams.

`frames` is the frame of one websocket message; `connect` the JSON that opens a stream, and the headers of a request
that are passed on. These are pure: bytes in, values out. `waiting` has the poll of both.
"""
