"""The status of a pod, its containers and its conditions, computed from facts. Pure functions."""
