"""Resource usage of the node, its pods and containers: kubelet's Summary, for the local server and for evictions."""
