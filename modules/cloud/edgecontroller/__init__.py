"""edgecontroller: KubeEdge's controller between the API server and cloudhub (docs/protocol.md, "edgecontroller").

| part | what it does |
|---|---|
| `mirror` | lists and watches the API server's objects, and keeps them in memory |
| `cluster` | is the client of the API server: its calls and watches, and the nodes' states that are stored there |
| `downstream`, `devices` | turn changes of objects into messages to nodes |
| `upstream` | answers the messages of nodes by requests of the API server |
| `state` | records what nodes have acknowledged |
"""
