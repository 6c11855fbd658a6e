"""Admission: whether this node runs a pod."""
