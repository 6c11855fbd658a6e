"""Node-pressure eviction (kubelet's eviction manager).

`signals` lists the observed resources, `thresholds` parses the limits, `decide` finds the node's conditions and the
thresholds to act on, `rank` orders the pods, `local_storage` finds pods over their limits of disk, `measurement`
measures and `evictor` acts.
"""
