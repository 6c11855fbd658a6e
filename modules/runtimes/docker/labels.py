"""Names and labels of containers that edgecore makes in Docker: dockershim's, and a label that identifies their owner.

A container belongs to the edgecore whose state directory `OWNER` names. Containers of other edgecores, kubelets and
people are ignored.
"""

import json
import re
from collections.abc import Mapping
from typing import Final

from modules.runtimes.docker.client import Query
from protos.cri.v1 import api_pb2 as cri

OWNER: Final = "io.kubernetes.edgecore.root"
KIND: Final = "io.kubernetes.docker.type"
SANDBOX: Final = "podsandbox"
CONTAINER: Final = "container"
SANDBOX_ID: Final = "io.kubernetes.sandbox.id"
_ANNOTATION: Final = "annotation."
_CONTAINER_NAME: Final = "io.kubernetes.container.name"
_HOLDER_NAME: Final = "POD"
_UNUSABLE: Final = re.compile(r"[^A-Za-z0-9.-]")
_LONGEST_PART: Final = 64


def owned_by(root: str) -> Query:
    """Return the query that lists the containers of one edgecore."""
    return {"all": "1", "filters": json.dumps({"label": [f"{OWNER}={root}"]})}


def events_of(root: str) -> Query:
    """Return the query for the events about the end of one edgecore's containers."""
    return {"filters": json.dumps({"type": ["container"], "label": [f"{OWNER}={root}"], "event": ["die", "destroy"]})}


def sandbox_labels(root: str, config: cri.PodSandboxConfig) -> dict[str, str]:
    """Return the labels of the container that holds a sandbox."""
    theirs = _theirs(config.labels, config.annotations)
    return theirs | {OWNER: root, KIND: SANDBOX, _CONTAINER_NAME: _HOLDER_NAME}


def container_labels(root: str, request: cri.CreateContainerRequest) -> dict[str, str]:
    """Return the labels of a container."""
    theirs = _theirs(request.config.labels, request.config.annotations)
    return theirs | {OWNER: root, KIND: CONTAINER, SANDBOX_ID: request.pod_sandbox_id}


def sandbox_name(config: cri.PodSandboxConfig) -> str:
    """Return the name of the container that holds a sandbox: k8s_POD_name_namespace_uid_attempt."""
    metadata = config.metadata
    return _name(_HOLDER_NAME, metadata.name, metadata.namespace, metadata.uid, metadata.attempt)


def container_name(request: cri.CreateContainerRequest) -> str:
    """Return the name of a container: k8s_container_pod_namespace_uid_attempt."""
    own, pod = request.config.metadata, request.sandbox_config.metadata
    return _name(own.name, pod.name, pod.namespace, pod.uid, own.attempt)


def _name(*parts: object) -> str:
    return "_".join(["k8s", *(_UNUSABLE.sub("-", str(each))[:_LONGEST_PART] for each in parts)])


def _theirs(labels: Mapping[str, str], annotations: Mapping[str, str]) -> dict[str, str]:
    return dict(labels) | {f"{_ANNOTATION}{key}": value for key, value in annotations.items()}
