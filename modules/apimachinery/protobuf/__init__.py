"""Bodies in Kubernetes' protobuf, in which kubectl and other Go clients write built-in kinds.

`messages.json` has the numbers, names and types of the fields; `generate` makes it from the descriptors in a kubectl.
"""
