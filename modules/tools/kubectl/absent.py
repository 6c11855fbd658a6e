"""kubectl's verbs (1.32), each with the answer of a program that does not have it."""

from __future__ import annotations

from typing import Final

_NO_USERS: Final = "who may open the socket may do everything; `kubectl auth` asks the secure port of a cloud"

ANSWERS: Final = {
    "annotate": "",
    "api-resources": "",
    "api-versions": "",
    "apply": "",
    "attach": "",
    "auth": _NO_USERS,
    "autoscale": "nothing is scaled by itself here: `scale --replicas=N` sets the number of pods",
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
    "drain": "",
    "edit": "",
    "events": "",
    "exec": "",
    "explain": "the fields are at https://kubernetes.io/docs/reference/kubernetes-api/, and `apply` checks their names",
    "expose": "`apply` a Service: its selector is that of the Deployment",
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
    "rollout": "the node has pods only: `cloudcore rollout` or `kubectl rollout` in the cloud",
    "run": "`create pod NAME --image=IMAGE` makes a pod",
    "scale": "the node has pods only: `cloudcore scale` or `kubectl scale` in the cloud",
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
