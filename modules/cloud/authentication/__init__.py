"""Authentication of the Kubernetes API's clients over TCP."""
