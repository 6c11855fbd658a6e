"""The validation of the API server's kinds, in the words of kube-apiserver 1.32.

edged rejects pods by the rules that protect a node, the API server by all of them.
"""
