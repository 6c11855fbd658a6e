"""What critest (kubernetes-sigs/cri-tools) demands of a container runtime, spec by spec, on every kind of runtime."""
