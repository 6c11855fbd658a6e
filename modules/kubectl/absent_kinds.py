"""Kinds of Kubernetes that an API server may lack, a node's or cloudcore's, each with what to do instead."""

from typing import Final

_NO_INGRESS: Final = "nothing serves it here; a Service's nodePort, or a hostPort or hostNetwork of a pod opens a port"
_NO_POLICY: Final = "nothing keeps it here: every pod of a node may reach every other"
_IN_THE_CLOUD: Final = "the node has pods only; `cloudcore` and `kubectl` show and make it in the cloud"
_ADVICE: Final = {
    ("deployment", "deployments", "deploy"): _IN_THE_CLOUD,
    ("replicaset", "replicasets", "rs"): _IN_THE_CLOUD,
    ("statefulset", "statefulsets", "sts"): _IN_THE_CLOUD,
    ("daemonset", "daemonsets", "ds"): f"{_IN_THE_CLOUD}; a static pod is a file on the node",
    ("job", "jobs"): _IN_THE_CLOUD,
    ("cronjob", "cronjobs", "cj"): _IN_THE_CLOUD,
    ("horizontalpodautoscaler", "horizontalpodautoscalers", "hpa"): "`scale --replicas=N` sets the number of pods",
    ("ingress", "ingresses", "ing"): _NO_INGRESS,
    ("ingressclass", "ingressclasses"): _NO_INGRESS,
    ("gateway", "gateways", "gtw"): _NO_INGRESS,
    ("httproute", "httproutes"): _NO_INGRESS,
    ("nodegroup", "nodegroups", "ng"): _IN_THE_CLOUD,
    ("edgeapplication", "edgeapplications", "eapp"): _IN_THE_CLOUD,
    ("networkpolicy", "networkpolicies", "netpol"): _NO_POLICY,
    ("role", "roles"): _IN_THE_CLOUD,
    ("rolebinding", "rolebindings"): _IN_THE_CLOUD,
    ("clusterrole", "clusterroles"): _IN_THE_CLOUD,
    ("clusterrolebinding", "clusterrolebindings"): _IN_THE_CLOUD,
    ("resourcequota", "resourcequotas", "quota"): _IN_THE_CLOUD,
    ("limitrange", "limitranges", "limits"): _IN_THE_CLOUD,
    ("priorityclass", "priorityclasses", "pc"): _IN_THE_CLOUD,
    ("runtimeclass", "runtimeclasses"): _IN_THE_CLOUD,
}
ADVICE: Final = {word: advice for words, advice in _ADVICE.items() for word in words}
"""By the singular (which is the kind in lower case), the plural and the short names."""


def advice_on(word: str) -> str:
    """Return the substitute of a kind or a resource, which may be named with its version and group
    (`deployments.v1.apps`); "" if Kubernetes or the table lacks it.
    """
    return ADVICE.get(word.lower().partition(".")[0], "")
