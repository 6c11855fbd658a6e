"""Node-pressure eviction (kubelet's eviction manager).

`decide` finds the node's conditions, the thresholds to act on and pods over their limits of disk, and orders the pods;
`measurement` measures and `evictor` acts.
"""
