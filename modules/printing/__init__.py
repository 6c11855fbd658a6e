"""Objects in the words and columns of kubectl: for the cloud stub's tables, and for the Kubernetes API on the node.

Pure, and on plain JSON: what is printed may come from any cloud, and whatever is missing in it has a word too.
"""
