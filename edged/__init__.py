"""edged: runs the node's pods through a container runtime, and reports their status, as a kubelet does.

`api` has the Kubernetes types; `pods`, `volumes` and `images` decide as pure functions; actors and the module's thread
carry the decisions out. edged talks to the rest of the agent by messages of the bus, mostly through
`metamanager.client`. It imports no hub: how messages reach the node, and where they are stored, is left to others.
"""
