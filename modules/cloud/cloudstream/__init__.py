"""The cloud's end of the stream tunnel: logs, commands and port forwarding for pods (KubeEdge's `cloudstream`).

A node keeps a websocket to this server, because the cloud cannot call a node behind NAT. In it each log, command or
port forwarding is a stream with a number (`modules.streams`). Users reach the streams through the embedded API server,
or through a cluster's, which takes the stream server for the node's kubelet.
"""
