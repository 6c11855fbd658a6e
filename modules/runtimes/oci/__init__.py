"""The OCI container runtime: a CRI v1 server inside edgecore whose containers crun or runc isolates.

`containerRuntimeEndpoint: embedded://oci` starts it. `images` pulls, stores and unpacks images, `spec` writes the
`config.json` of a container, `network` runs CNI plug-ins, `streaming` serves exec, attach and port-forward. `driver`
calls crun and conmon; the modules of this package join these parts to the operations of CRI.
"""
