"""The client of the Kubernetes API: one for the embedded API server and for a cluster's."""
