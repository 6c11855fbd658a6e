"""What the node, its pods and their containers use: kubelet's Summary, for the local server and for evictions."""
