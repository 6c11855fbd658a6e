"""The verbs of the Kubernetes API, by subject."""
