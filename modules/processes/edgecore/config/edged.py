"""Settings of edged, which runs the pods (`modules.edged`)."""

from pathlib import Path
from typing import Annotated

from msgspec import field

from modules.processes.edgecore.config.kubelet import TailoredKubeletConfig
from modules.processes.edgecore.config.names import (
    LABEL_KEY,
    LABEL_VALUE,
    NODE_NAME,
    OPTIONAL_IP_ADDRESS,
    UNIX_SOCKET,
    host_name,
)
from modules.processes.edgecore.config.section import Section
from modules.processes.edgecore.config.value_kinds import AbsolutePath, Duration, Switch, TextMap, Whole


class Edged(Section, frozen=True, kw_only=True):
    """The node and its pods."""

    allow_unisolated_root: Annotated[bool, Switch()] = False
    """Whether edgecore may run as root with the process runtime, which isolates nothing, and a cloud without TLS. Any
    server that answers on the cloud's address is then root on this machine. Ours, for throw-away machines, as is the
    flag `--allow-unisolated-root`."""

    cni_conf_dir: Annotated[Path, AbsolutePath()] = Path("/etc/cni/net.d")
    """Directory of the CNI configuration for embedded://oci and embedded://docker: its first file by name. Without a
    file, pods are on a bridge of edgecore's own."""

    discard_unpacked_layers: Annotated[bool, Switch()] = True
    """Whether embedded://oci keeps layers of images only as files. Otherwise it keeps them also as they came, for
    `edgecore images export`, in about half as much space again. As in containerd."""

    docker_address: Annotated[str, UNIX_SOCKET] = "unix:///var/run/docker.sock"
    """Socket of Docker Engine, with embedded://docker."""

    enable: Annotated[bool, Switch()] = True
    """Whether this node runs pods."""

    hostname_override: Annotated[str, NODE_NAME] = field(default_factory=host_name)
    """The node's name. Default (also when empty): the host name in lower case. Changing it makes another node of this
    machine."""

    max_container_count: Annotated[int, Whole("containers", -1, 1_000_000)] = -1
    """Most dead containers that are kept of all pods together. -1: no limit, as with KubeEdge."""

    max_per_pod_container_count: Annotated[int, Whole("containers", -1, 1_000_000)] = 1
    """Most dead containers that are kept of each name in a pod; their logs can be read (`logs --previous`). -1: all.
    The newest, which has the restart count, always stays."""

    minimum_gc_age: Annotated[float, Duration(0.0, 365 * 24 * 3600.0)] = field(default=0.0, name="minimumGCAge")
    """Age after which a dead container may be removed by the collection that runs every minute."""

    node_ip: Annotated[str, OPTIONAL_IP_ADDRESS] = field(default="", name="nodeIP")
    """Address that the node reports and that pods see as `status.hostIP`. Default empty: the one from which this
    machine reaches the cloud."""

    node_labels: Annotated[dict[str, str], TextMap(LABEL_KEY, LABEL_VALUE, 256)] = field(default_factory=dict)
    """Labels that the node gets when it registers, beside hostname, os and arch. cloudcore refuses a node with a label
    that nodes may not set, such as a node group's."""

    pleg_relist_period: Annotated[float, Duration(0.1, 3600.0)] = 1.0
    """Time between two listings of all containers, which find those that ended by themselves. Ours; the kubelet's
    constant is 1 s. edgecore's own changes are seen immediately in any case."""

    pleg_relist_period_with_events: Annotated[float, Duration(0.0, 3600.0)] = 10.0
    """Time between two listings while the runtime sends events (containerd from 1.7, CRI-O from 1.26, the runtimes
    inside edgecore); a change without an event is seen this late at most. Ours; a kubelet with EventedPLEG has 300 s.
    0s: request no events."""

    redirect_container_streaming: Annotated[bool, Switch()] = False
    """Whether clients of exec, attach and port-forward are redirected to the runtime's streaming server (302). Ours,
    for clients on the node that know KubeEdge's 302 of 2019. Without effect while edgeStream is enabled."""

    register_schedulable: Annotated[bool, Switch()] = True
    """Whether the scheduler of the cloud may place pods on the node after its registration."""

    report_event: Annotated[bool, Switch()] = True
    """Whether events are sent to the cloud, as `kubectl describe pod` shows them, when nothing else waits. KubeEdge's
    default is false, as is the profile saver's. The node's database keeps its newest 500 in any case."""

    root_directory: Annotated[Path, AbsolutePath()] = Path("/var/lib/kubelet")
    """Directory of the pods' volumes and, with a runtime inside edgecore, of its containers and images."""

    streaming_on_read_only_port: Annotated[bool, Switch()] = False
    """Whether exec, attach, port-forward and run are served on readOnlyPort too: every client that reaches the port can
    do anything in any container. Otherwise they are only on `edged.sock` in rootDirectory, which only its owner can
    open. Ours."""

    tailored_kubelet_config: TailoredKubeletConfig = TailoredKubeletConfig()
    """The kubelet's configuration."""

    workers: Annotated[int, Whole("", 1, 64)] = 4
    """Pods that are started at a time. Ours; KubeEdge's constant is 5. Four saturate two cores with containerd."""
