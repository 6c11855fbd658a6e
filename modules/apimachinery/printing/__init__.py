"""Prints objects in the words and columns of kubectl, for `cloudcore get` and for the Kubernetes API on the node.

It works on plain JSON of any cloud, where every part may be missing. Pure, except for `terminal`.
"""
