"""Graceful shutdown of the node: its pods end in order and in time before the machine does (kubelet's node shutdown
manager).

`plan` says who ends when, `ending` does it; `logind` knows when, over the little of D-Bus that `dbus` speaks.
"""
