"""The kernel's control groups of the node, of QoS classes and of pods, in kubelet's layout."""
