"""The Kubernetes API on the node, for what the node has: KubeEdge's metaserver (spec/05 §9), so that kubectl and
programs that speak to an API server work at the edge, with and without the cloud.

metamanager's store ── WatchedStore ──┐
                                      ├─► View ◄── reading, watching ◄── api ◄── edged.server.http
edged's statuses ───── live ──────────┘                              └─► cloud: what writes, and what is not here

It stands among the modules and not in metamanager, because it tells what two of them know: which objects there are,
which the store says, and how the pods are, which edged says, cloud or no cloud.
"""
