"""The kernel's control groups: a node's, its classes', and each pod's, laid out as a kubelet lays them out."""
