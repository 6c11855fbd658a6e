"""Pods that this machine itself wants, from files in a directory, and their mirrors in the cloud (kubelet's names)."""
