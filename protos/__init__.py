"""The gRPC interfaces of a Kubernetes node, as `.proto` files and the Python stubs generated from them.

`cri.v1` is the container runtime, `csi.v1` storage drivers, `deviceplugin.v1beta1`, `pluginregistration.v1`
plug-ins, `podresources.v1` what monitoring agents ask of a node. The stubs are checked in, so that running
edgecore needs no protobuf compiler; `python -m protos.generate` makes them anew, `--check` compares.
"""
