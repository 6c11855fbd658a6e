"""cloudhub: the cloud's end of the links to the nodes (docs/protocol.md, "cloudhub").

`server` accepts websockets, `connection` is one of them, `node_session` delivers messages to a node reliably,
`acknowledgement` and `routing` are decision tables, and `module` is the actor.
"""
