"""Kubernetes' validation rules: their language, and the rules of pods.

edged rejects pods by the rules that protect a node, the API server by all of them. The rules of other kinds are in
`modules.apimachinery.validation`.
"""
