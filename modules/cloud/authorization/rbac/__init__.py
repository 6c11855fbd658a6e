"""Kubernetes' RBAC: roles, their bindings, and the decisions that follow from them."""
