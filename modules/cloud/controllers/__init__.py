"""The controllers of workloads in the embedded cloud: what kube-controller-manager does for a cluster."""
