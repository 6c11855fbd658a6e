"""The whole system as a person runs it: `cloudcore` and `edgecore` as processes, on each container runtime.

    conftest  fixtures: a container runtime, a machine with a cloud and a node on it
    machine   the two processes, their files, and what they leave behind
    mirror    what the cloud knows, followed over its control socket; tests wait for its states
    runtimes  the process runtime and a private containerd
    pods      manifests as tests need them
    crowd/    what single pods may ask for: many cases on one node at the same time

Nothing here sleeps: a test waits for a state of the cloud, for a line in a log or for the end of a process, each with a
deadline.
"""
