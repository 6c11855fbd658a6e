"""Graceful shutdown of the node: its pods terminate in order before the machine shuts down (kubelet's nodeshutdown).

`plan` groups the pods, `shutdown_manager` terminates them; `logind` reports the shutdown, over the D-Bus of `bus`.
"""
