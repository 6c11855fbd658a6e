"""The decisions of a kubelet about pods, as pure functions.

They take a pod, the container runtime's facts (`PodFacts`) and the time. `compute_pod_actions`
returns the next steps, `config` the CRI's configuration of sandboxes and containers, `pod_status` the status for the
cloud. The caller carries the decisions out: apart from `PodManager` and `BackOffs`, which keep records for the edged
module, nothing here has state, and nothing reads a clock, file or socket.
"""
