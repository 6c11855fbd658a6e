"""Stand-ins for the parts that a module depends on: a container runtime, a cloud and a prober in memory."""
