"""Bodies in Kubernetes' protobuf, the form of built-in kinds from kubectl and other Go clients.

`messages.json` has the numbers, names and types of the fields; `generate` makes it from Kubernetes' sources.
"""
