"""The gRPC interfaces of a Kubernetes node, as `.proto` files and the Python messages generated from them.

`cri.v1` is the interface of container runtimes, `csi.v1` of storage drivers, `deviceplugin.v1beta1` and
`pluginregistration.v1` of plug-ins, `podresources.v1` of monitoring agents; `dmi.v1beta1` is KubeEdge's, of mappers of
devices. The messages are checked in, so that
edgecore runs without a protobuf compiler; `python -m protos.generate` regenerates them, `--check` compares.
"""

from protos.postponed import postpone

for _unused in ("descriptor_database", "internal.python_message", "text_encoding"):
    postpone(f"google.protobuf.{_unused}")  # for messages in pure Python, beside those in C that are used

__all__ = [
    "postpone",
]
