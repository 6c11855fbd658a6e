"""Kubernetes' device plug-ins: devices counted in the node's status and given to containers."""
