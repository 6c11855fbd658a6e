"""Pods are ended when the node runs short of memory, disk or processes, or when they take too much of its disk.

kubelet's eviction manager: `signals` says what is watched, `thresholds` when there is too little, `decide` what follows
from that, `rank` whom it meets, `local_storage` who has taken too much disk; `evictor` does it.
"""
