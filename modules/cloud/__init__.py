"""The cloud's modules (KubeEdge's `cloud/pkg`): cloudhub, edgecontroller, dynamiccontroller, and the API server.

`messages`, `refusals` and `tls_stream` are used by several of them, which do not import one another.
"""
