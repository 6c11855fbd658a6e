"""Pod workers: the queue of pods, the workers, and the sync of a pod with the container runtime."""
