"""kubectl's verbs (1.32), each with the answer of a program that does not have it."""

from __future__ import annotations

from typing import Final

_NO_CONTROLLERS: Final = "there are no Deployments, ReplicaSets and Jobs here, only pods"
_NO_USERS: Final = "there are no users and roles here; who may open the socket may do everything"

ANSWERS: Final = {
    "annotate": "",
    "api-resources": "",
    "api-versions": "",
    "apply": "",
    "attach": "",
    "auth": _NO_USERS,
    "autoscale": _NO_CONTROLLERS,
    "certificate": "certificates are granted by tokens: `cloudcore token`, then `edgecore join` on the node",
    "cluster-info": "",
    "completion": "",
    "config": "there is no kubeconfig; --help of each command has the options that select the server",
    "cordon": "",
    "cp": "",
    "create": "",
    "debug": "add an ephemeral container by `patch`, or run a command by `exec`",
    "delete": "",
    "describe": "",
    "diff": "",
    "drain": "`cordon` the node, then `delete` its pods: no controller would start them elsewhere",
    "edit": "",
    "events": "",
    "exec": "",
    "explain": "the fields are at https://kubernetes.io/docs/reference/kubernetes-api/, and `apply` checks their names",
    "expose": "there is no Service proxy here; hostPort or hostNetwork of a pod opens a port of its node",
    "get": "",
    "kustomize": "`kubectl kustomize DIR` makes manifests, and `apply -f -` takes them",
    "label": "",
    "logs": "",
    "options": "--help of each command has all of its options",
    "patch": "",
    "plugin": "there are no plugins",
    "port-forward": "",
    "proxy": "the socket speaks the Kubernetes API: `curl --unix-socket SOCKET http://localhost/api/v1/pods`",
    "replace": "",
    "rollout": f"{_NO_CONTROLLERS}; `apply` a changed pod, or `delete` and `apply` it",
    "run": "`create pod NAME --image=IMAGE` makes a pod",
    "scale": _NO_CONTROLLERS,
    "set": "`patch` changes a field, and `label` and `annotate` labels and annotations",
    "taint": "",
    "top": "",
    "uncordon": "",
    "version": "",
    "wait": "",
}
"""Every verb of kubectl 1.32, with the sentence for a program that lacks it; `{verb}` and `{program}` are replaced.

An empty sentence stands for a verb that every program has, or answers itself.
"""
