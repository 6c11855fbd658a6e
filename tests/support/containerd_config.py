"""The configuration files of a private containerd, as text."""

import json
import socket
from pathlib import Path
from typing import NamedTuple

from tests.support.images import PAUSE_IMAGE


class CniNetwork(NamedTuple):
    """A bridge with a subnet, and the socket that reserves it."""

    bridge: str
    subnet: str
    reservation: socket.socket


def containerd_config(directory: Path, address: Path, networks: Path) -> str:
    """config.toml: all it writes is below `directory`; CNI configurations are read from `networks`.

    restrict_oom_score_adj, because without CAP_SYS_RESOURCE runc cannot ask for the −998 of a sandbox;
    plug-ins that cannot work here are off, for a quicker start and a log without their complaints.
    """
    unused = ("aufs", "btrfs", "devmapper", "zfs")
    disabled = ", ".join(f'"io.containerd.snapshotter.v1.{name}"' for name in unused)
    return f"""\
version = 2
root = "{directory}/root"
state = "{directory}/state"
disabled_plugins = [{disabled}, "io.containerd.internal.v1.tracing"]

[grpc]
  address = "{address}"

[plugins."io.containerd.internal.v1.opt"]
  path = "{directory}/opt"

[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{PAUSE_IMAGE}"
  restrict_oom_score_adj = true
  netns_mounts_under_state_dir = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/usr/lib/cni"
    conf_dir = "{networks}"
  [plugins."io.containerd.grpc.v1.cri".containerd]
    default_runtime_name = "runc"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
      [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
        Root = "{directory}/runc"
"""


def cni_conflist(network: CniNetwork, leases: Path, *, host_ports: bool = False) -> str:
    """A CNI configuration of one bridge, without masquerading: the pods reach this machine and each other."""
    bridge = {
        "type": "bridge",
        "bridge": network.bridge,
        "isGateway": True,
        "ipMasq": False,
        "ipam": {
            "type": "host-local",
            "dataDir": str(leases),
            "ranges": [[{"subnet": network.subnet}]],
            "routes": [{"dst": "0.0.0.0/0"}],
        },
    }
    ports = [{"type": "portmap", "capabilities": {"portMappings": True}, "snat": False}] if host_ports else []
    return json.dumps({"cniVersion": "0.4.0", "name": network.bridge, "plugins": [bridge, *ports]})
