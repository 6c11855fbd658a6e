"""The CRI's configuration of a pod's sandbox and containers, made from the pod. Pure functions."""
