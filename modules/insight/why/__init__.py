"""Explains why a pod does not run, or how it came to run, from the objects of the API server, the node's answers and
the events.
"""
