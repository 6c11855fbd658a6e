"""The OCI container runtime: a CRI v1 server inside edgecore whose containers crun or runc isolates.

`containerRuntimeEndpoint: embedded://oci` starts it. `driver` is what the engine uses. Below it, `images` pulls, stores
and unpacks images, `spec` writes the `config.json` of a container, `network` runs CNI plug-ins, `streams` serves
exec, attach and port-forward, and `crun` calls crun and conmon.
"""
