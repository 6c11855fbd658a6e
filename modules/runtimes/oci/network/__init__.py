"""Networks of pods: namespaces without a process that holds them, and CNI plug-ins.

`PodNamespaces` pins the namespaces of a sandbox; `PodNetwork` attaches them to the network that the CNI configuration
of the machine describes, or to edgecore's own (`DefaultNetwork`) by default.
"""
