"""cloudhub: the cloud's end of the links to the nodes (docs/protocol.md, "cloudhub").

`module` is the actor; `modules.cloud.websocket` serves its connections. `node_session` delivers messages to a node
reliably, `acknowledgement` and `routing` are decision tables.
"""
