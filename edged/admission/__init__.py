"""Whether this node takes a pod (kubelet's admission): room, place, taints, ports, operating system."""
