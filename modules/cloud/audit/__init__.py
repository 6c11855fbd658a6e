"""The audit log: who asked what of the Kubernetes API, as lines of Kubernetes' `audit.k8s.io/v1` Events."""
