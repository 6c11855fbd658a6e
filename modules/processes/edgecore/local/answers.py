"""Answers to commands of other tools, which edgecore does not have: where it is, or what to type instead."""

from __future__ import annotations

from typing import Final

_IN_THE_CLOUD: Final = "objects are made in the cloud, which sends this node its part of them: "
_ASK_THE_CLOUD: Final = "it is the cloud's: `cloudcore delete pod POD`, or `edgecore delete pod POD`, which asks it"
_STATIC: Final = "write a manifest of the pod and `cloudcore apply -f` it, or put it into the node's staticPodPath"
ANSWERS: Final[dict[str, str]] = {
    "apply": f"{_IN_THE_CLOUD}`cloudcore apply -f FILE`; a static pod is a file in the node's staticPodPath",
    "create": f"{_IN_THE_CLOUD}`cloudcore create -f FILE`",
    "replace": f"{_IN_THE_CLOUD}`cloudcore replace -f FILE`",
    "diff": f"{_IN_THE_CLOUD}`cloudcore diff -f FILE`",
    "edit": f"{_IN_THE_CLOUD}`cloudcore edit`",
    "explain": "the schemas are the cloud's: `cloudcore explain pod.spec`",
    "cordon": "it is the cloud's: `cloudcore cordon NODE`",
    "uncordon": "it is the cloud's: `cloudcore uncordon NODE`",
    "drain": "it is the cloud's: `cloudcore drain NODE`",
    "taint": "it is the cloud's: `cloudcore taint`",
    "debug": "`edgecore exec POD -- COMMAND` runs a command in a container, `edgecore doctor` checks the node",
    "cluster-info": "this is one node; `edgecore doctor` says what its cloud is, and how the link to it is",
    "kubectl": "its verbs are commands of edgecore itself: `edgecore get pods`",
    "ctl": "its verbs are commands of edgecore itself: `edgecore get pods`",
    "ps": "`edgecore pods` lists the pods, `edgecore containers` their containers",
    "list": "`edgecore pods` lists the pods, `edgecore store list` all stored objects",
    "stats": "`edgecore top pods`",
    "pull": "an image is pulled when a pod needs it, as its imagePullPolicy says, or by `edgecore images pull IMAGE`",
    "play": _STATIC,
    "stop": _ASK_THE_CLOUD,
    "rm": _ASK_THE_CLOUD,
    "kill": _ASK_THE_CLOUD,
    "restart": "for a pod, `cloudcore delete pod POD` and apply it again; for the agent, `systemctl restart edgecore`",
    "info": "`edgecore describe node` shows the node, `edgecore doctor` checks it",
    "status": "`edgecore doctor` says how the node is; of the service, `systemctl status edgecore`",
    "check": "`edgecore doctor` checks this node, `edgecore config check FILE` a file",
    "check-config": "`edgecore config check FILE`; `edgecore doctor` checks the machine",
    "support-bundle": "`edgecore trace dump` writes what the node did, `edgecore doctor` how it is",
    "system": "`edgecore doctor` checks the node; images and dead containers are removed by themselves",
    "server": "the cloud is another program: `cloudcore run`",
    "agent": "`edgecore run`",
    "upgrade": "`pip install --upgrade`, then a restart; containers run on meanwhile",
}
"""For commands of kubectl, podman, k3s, keadm and iotedge that are not here."""
