"""The Kubernetes API on the node: KubeEdge's metaserver (docs/protocol.md, "Applications").

kubectl and programs that use an API server work at the edge, with and without the cloud.

metamanager's store ── WatchCacheStore ──┐
                                         ├─► WatchCache ◄── watching ◄── api ◄── beehive.http.http_server
edged's statuses ── LiveStatusUpdater ───┘                                         └─► ApplicationAgent ─► cloud

KubeEdge has its metaserver inside metamanager. Here it is a module of its own, because it serves the data of two:
objects from metamanager's store, and statuses of pods and node from edged.
"""
