"""The parts that servers of the Kubernetes API share: resources, discovery, paths, selectors, options, encoding,
errors.

The metaserver of a node and the API server of cloudcore both serve the API with it. The name is Kubernetes'.
"""
