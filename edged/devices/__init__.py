"""Devices that plug-ins provide: counted in the node's status, given to containers (Kubernetes' device plug-ins)."""
