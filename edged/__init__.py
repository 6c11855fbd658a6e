"""The part of the agent that turns desired pods into running containers, and reports what runs.

`api` holds the Kubernetes types, `pods`, `volumes` and `images` the decisions of a kubelet as pure functions;
the actors that carry those decisions out stand on them. Nothing here knows how messages reach the node or
where they are stored.
"""
