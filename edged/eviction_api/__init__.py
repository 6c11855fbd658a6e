"""Signals, thresholds, pressures and usage that the node's status and the evictor share (kubelet's eviction/api)."""
