"""The node's HTTP server: pods, logs, statistics and health, and streams into containers.

request → http (threads, bounds) → browser_guard → router → routes: healthz, container_logs, …, streaming

The handlers read `snapshots`, where the modules leave pods, node status and the container runtime.
"""
