"""The WebSocket server that nodes connect to, which cloudhub (messages) and cloudstream (streams) share.

`server` serves all connections on one thread, `connection` one of them; `link` is the end that a module holds.
"""
