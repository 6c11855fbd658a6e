"""Probes: whether a container has started, is alive and is ready, asked again and again (kubelet's pkg/kubelet/prober).

decide      what an answer means: thresholds, and which probe is asked when. Pure.
schedule    when a probe is asked for the first and for the next time. Pure.
targets     what exactly is asked of a container: command, address, request. Pure.
network     the contract for asking over the network, with its double in `edged.probes.testing`
sockets     that contract on real sockets, with `http1` for HTTP and `health` for gRPC
runner      asks once, blocking: over the network, or through the container runtime
crew        a few actors that run the runner, hired when there is something to ask
manager     the probes of all pods, on edged's own thread
"""
