"""edgecontroller: KubeEdge's controller between the API server and cloudhub (docs/protocol.md, "edgecontroller").

`downstream_*` turn changes of objects into messages to nodes, `upstream_*` answer the messages of nodes. Its module
also runs the embedded API server (`modules.cloud.apiserver`).
"""
