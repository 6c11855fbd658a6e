"""The node's name server: the cluster's names from what the node knows, all others from the servers of the host."""
