"""What to do here for commands of podman, docker, crictl, k3s, keadm and `iotedge`, which people type out of habit."""

from __future__ import annotations

from typing import Final

_PODS_ONLY: Final = "containers are parts of pods here, and pods are the cloud's"
_DELETE: Final = f"{_PODS_ONLY}: `cloudcore delete pod POD`, or `edgecore delete pod POD`, which asks the cloud"
_IMAGES: Final = "`edgecore describe node` lists the images; a pod's image is pulled when the pod starts"
_SERVICE: Final = "`edgecore unit` prints a systemd unit; `systemctl restart edgecore` with it, and pods go on"
_DOCTOR: Final = "`edgecore doctor` says what is wrong with this node"

ON_THE_NODE: Final = {
    "agent": "`edgecore run`, after `edgecore join`",
    "build": "images are built elsewhere, with podman for instance",
    "check": f"{_DOCTOR}, and `edgecore config check FILE` what is wrong with a file",
    "check-config": "`edgecore config check FILE`",
    "containers": "`edgecore pods` lists the pods, `edgecore describe pod POD` the containers of one",
    "crictl": "`edgecore pods`, `logs`, `exec`; crictl itself works with the runtime's socket",
    "ctl": "the command stands by itself: `edgecore get pods`, `edgecore logs POD`, `edgecore exec POD -- COMMAND`",
    "ctr": "`edgecore pods`; ctr itself works with containerd's socket (`--namespace k8s.io`)",
    "debug": f"{_DOCTOR}; `edgecore exec POD -- COMMAND` runs a command in a container",
    "deinit": "`edgecore uninstall`",
    "image": _IMAGES,
    "images": _IMAGES,
    "info": f"{_DOCTOR}, `edgecore describe node` what the node is",
    "init": "`edgecore join` makes this machine a node; the cloud's side is `cloudcore run`",
    "inspect": "`edgecore describe pod POD`, or `edgecore get pod POD -o yaml`",
    "install": _SERVICE,
    "inspectp": "`edgecore describe pod POD`",
    "kill": _DELETE,
    "kubectl": "kubectl's verbs stand by themselves: `edgecore get pods`",
    "list": "`edgecore pods` lists the pods, `edgecore store list` all stored objects",
    "play": "a manifest in the directory `staticPodPath` of the configuration runs without a cloud, as a static pod",
    "pod": "`edgecore pods` lists the pods",
    "ps": "`edgecore pods` lists the pods",
    "pull": "a pod's image is pulled when the pod starts; imagePullPolicy of the pod says when anew",
    "reset": "`edgecore uninstall` removes all that running has left",
    "restart": f"to start a pod anew, delete it and apply it again; for the agent: {_SERVICE}",
    "rm": _DELETE,
    "rmi": "images that no pod uses go when the disk fills (imageGCHighThresholdPercent)",
    "server": "`cloudcore run` is the cloud's side",
    "start": _SERVICE,
    "stats": "`edgecore top pods`",
    "status": f"{_DOCTOR}; `edgecore top --live` shows what it does",
    "stop": f"a pod: {_DELETE}; the agent: `systemctl stop edgecore`, or SIGTERM",
    "support-bundle": "`edgecore trace dump` keeps the last minute, `edgecore backup FILE` the state",
    "system": "`edgecore logs POD`; of the agent itself `journalctl -u edgecore`, or the output of `edgecore run`",
    "token": "`cloudcore token`, where the cloud runs",
    "upgrade": "`pip install --upgrade edgecore`, then restart it: pods go on; `edgecore backup FILE` before",
    "volume": "`edgecore describe pod POD` shows the volumes of a pod",
}
"""Answers of `edgecore` by command."""

IN_THE_CLOUD: Final = {
    "agent": "`edgecore run` on the node, after `edgecore join`",
    "etcd-snapshot": "`cloudcore backup FILE`",
    "gettoken": "`cloudcore token`",
    "init": "`cloudcore run`, with --tls for nodes on other machines",
    "join": "`edgecore join` on the node, with the token of `cloudcore token`",
    "kubectl": "kubectl's verbs stand by themselves: `cloudcore get pods`",
    "nodes": "`cloudcore get nodes`",
    "pods": "`cloudcore get pods`",
    "ps": "`cloudcore get pods`",
    "reset": "stop it, and remove the directory of `--root`",
    "secrets-encrypt": "secrets are in the database as they are: keep its disk encrypted",
    "server": "`cloudcore run`",
    "upgrade": "`pip install --upgrade edgecore`, then restart it; `cloudcore backup FILE` before",
}
"""Answers of `cloudcore` by command."""
