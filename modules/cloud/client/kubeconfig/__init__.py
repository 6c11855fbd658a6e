"""Kubeconfig files: which cluster to talk to, and as whom."""
