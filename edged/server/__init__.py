"""The node's own HTTP server: what is known of the pods, their logs, and ways into their containers.

request → http (bounds, threads) → pages → router → routes: healthz, container_logs, running, streaming → proxy
                                                      ↑
                         modules leave what they know in `snapshots`, and the way to the container runtime
"""
