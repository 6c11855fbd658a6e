"""The decisions of a kubelet, as pure functions.

From a pod as it is wanted (`edged.api.Pod`), what the container runtime reports (`PodFacts`) and the time,
they say what is to be done (`compute_pod_actions`), how a container is to be created (`container_config`,
`sandbox_config`) and what is to be told the cloud (`pod_status`, `diff_pod_status`). They read no clock, file
or socket; whoever calls them carries out what they decide.
"""
