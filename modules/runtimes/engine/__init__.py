"""The engine of every container runtime inside edgecore: sandboxes, containers, their records, recovery and events.

`engine` assembles it around a `driver`, which makes the containers: plain processes, crun's or Docker's. The server of
CRI (`modules.runtimes.cri_server`) is above it and knows no driver. Nothing is imported here.
"""
