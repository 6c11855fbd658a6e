"""Hooks after a container's start and before its stop, and the time that containers get to end (kubelet's
pkg/kubelet/lifecycle). Used by the pod workers.
"""
