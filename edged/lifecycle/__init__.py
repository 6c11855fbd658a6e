"""Lifecycle hooks: what a pod asks to be done after a container's start and before its stop (kubelet's pkg/kubelet/
lifecycle). Workers run them, as steps of the start and of the stop.
"""
