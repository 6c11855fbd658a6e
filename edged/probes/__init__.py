"""Startup, liveness and readiness probes (kubelet's pkg/kubelet/prober).

results      thresholds over a probe's results, and which probes are due. Pure.
targets      the command, address or request of a probe. Pure.
network      the contract of probes over the network, with its double in `modules.lab.doubles.probes`
sockets      that contract on real sockets, with h11 for HTTP
relay        a way for gRPC's probes to pods that only a given function reaches
runner       runs one probe, blocking: over the network, or through the container runtime
worker_pool  the actors that call the runner
manager      the probes of all pods, on edged's own thread
"""
