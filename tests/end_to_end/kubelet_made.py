"""A pod as KubeEdge's edgecore leaves it on a node: sandbox and container under a kubelet's labels, and its objects."""

import json
import time
from pathlib import Path
from typing import Any, Final

import yaml

from edged.cri import ContainerId
from edged.cri.client import CriClient
from edged.pods.hash import kubelet_hash
from modules.apimachinery.kinds import JsonObject
from modules.apimachinery.types import Container
from protos.cri.v1 import api_pb2 as cri
from tests.end_to_end.pods import IMAGE, RUN
from tests.end_to_end.processes import REPOSITORY

NODE: Final = "vm"
UID: Final = "8c1f9a52-5a0e-4f0e-9d4e-3d1f6a1c7b20"
RESTARTS: Final = 2
"""How often KubeEdge has started the container again."""
TOKEN: Final = "a-token-of-the-cloud"  # noqa: S105 - nobody's
TOKEN_KEY: Final = (
    '"default"/"default"/[]string(nil)/3607/'
    f'v1.BoundObjectReference{{Kind:"Pod", APIVersion:"v1", Name:"web", UID:"{UID}"}}'
)

_DEFAULT_FILE: Final = REPOSITORY / "tests" / "modules" / "processes" / "edgecore" / "config" / "kubeedge_default.yaml"
_ACCESS: Final = "kube-api-access-x7k2p"
_IDENTITY: Final = {
    "io.kubernetes.pod.name": "web",
    "io.kubernetes.pod.namespace": "default",
    "io.kubernetes.pod.uid": UID,
}


def stored_pod() -> JsonObject:
    """The pod as the cloud has sent it: with the volume of the service account that an API server adds."""
    sources = [
        {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
        {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
    ]
    mount = {"name": _ACCESS, "readOnly": True, "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount"}
    app = {"name": "app", "image": IMAGE, "command": ["sh", "-c", RUN], "imagePullPolicy": "IfNotPresent"}
    return {
        "kind": "Pod",
        "apiVersion": "v1",
        "metadata": {"name": "web", "namespace": "default", "uid": UID, "resourceVersion": "41"},
        "spec": {
            "nodeName": NODE,
            "serviceAccountName": "default",
            "restartPolicy": "Always",
            "terminationGracePeriodSeconds": 30,
            "hostNetwork": True,
            "containers": [{**app, "volumeMounts": [mount]}],
            "volumes": [{"name": _ACCESS, "projected": {"sources": sources, "defaultMode": 420}}],
        },
        "status": {"phase": "Running"},
    }


def stored_configmap() -> JsonObject:
    """The certificate of the cluster, which each pod mounts."""
    meta = {"name": "kube-root-ca.crt", "namespace": "default", "uid": "c0", "resourceVersion": "7"}
    return {"kind": "ConfigMap", "apiVersion": "v1", "metadata": meta, "data": {"ca.crt": "certificate"}}


def stored_token() -> JsonObject:
    """The answer to KubeEdge's TokenRequest."""
    ends = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + 3600))
    bound = {"kind": "Pod", "apiVersion": "v1", "name": "web", "uid": UID}
    spec = {"audiences": ["https://kubernetes.default.svc"], "expirationSeconds": 3607, "boundObjectRef": bound}
    return {"kind": "TokenRequest", "spec": spec, "status": {"token": TOKEN, "expirationTimestamp": ends}}


def start(client: CriClient, logs: Path) -> ContainerId:
    """Make the sandbox and the running container, as a kubelet of Kubernetes 1.32 does."""
    own = logs / f"default_web_{UID}"
    (own / "app").mkdir(parents=True)
    sandbox = cri.PodSandboxConfig(
        metadata=cri.PodSandboxMetadata(name="web", namespace="default", uid=UID, attempt=0),
        log_directory=str(own),
        labels=_IDENTITY,
        annotations={"kubernetes.io/config.source": "api"},
        linux=cri.LinuxPodSandboxConfig(
            security_context=cri.LinuxSandboxSecurityContext(namespace_options=cri.NamespaceOption(network=cri.NODE))
        ),
    )
    sandbox_id = client.run_pod_sandbox(sandbox)
    config = cri.ContainerConfig(
        metadata=cri.ContainerMetadata(name="app", attempt=RESTARTS),
        image=cri.ImageSpec(image=IMAGE),
        command=["sh", "-c", RUN],
        log_path=f"app/{RESTARTS}.log",
        labels={**_IDENTITY, "io.kubernetes.container.name": "app"},
        annotations={
            "io.kubernetes.container.hash": kubelet_hash(Container(name="app", image=IMAGE)),
            "io.kubernetes.container.restartCount": str(RESTARTS),
            "io.kubernetes.container.terminationMessagePath": "/dev/termination-log",
            "io.kubernetes.container.terminationMessagePolicy": "File",
            "io.kubernetes.pod.terminationGracePeriod": "30",
        },
    )
    made = client.create_container(sandbox_id, config, sandbox)
    client.start_container(made)
    return made


def configuration(directory: Path, endpoint: str, port: int, closed_port: int) -> JsonObject:
    """KubeEdge's own file, with paths below a directory, and a cloud that nobody reaches."""
    text = _DEFAULT_FILE.read_text().replace("192.0.2.2:10000", f"127.0.0.1:{closed_port}")
    text = text.replace("192.0.2.2:10002", f"127.0.0.1:{closed_port}").replace("/etc/kubeedge", f"{directory}/etc")
    config: JsonObject = yaml.safe_load(text)
    config["database"]["dataSource"] = str(directory / "edgecore.db")
    edged: dict[str, Any] = config["modules"]["edged"]
    kubelet = edged["tailoredKubeletConfig"]
    edged["rootDirectory"] = str(directory / "edge" / "edged")
    kubelet |= {
        "podLogsDir": str(directory / "edge" / "logs" / "pods"),
        "containerRuntimeEndpoint": endpoint,
        "imageServiceEndpoint": endpoint,
        "readOnlyPort": port,
        "cgroupRoot": f"/{directory.name}",
        "evictionHard": {"memory.available": "100Mi"},  # the machine's disk may be fuller than KubeEdge's threshold
    }
    return config


def as_file(config: JsonObject) -> str:
    """JSON is YAML."""
    return json.dumps(config)
