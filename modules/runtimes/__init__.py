"""The container runtimes inside edgecore. Each is a CRI v1 server, which edged knows by CRI alone, like containerd.

- `cri_server`: the server around a runtime: its socket, the methods of CRI, records on the disk, recovery, events.
- `process`: containers that are plain processes (`embedded://`), and `shim`, the parents of these processes.
- `oci`: containers that crun or runc isolates (`embedded://oci`).
- `docker`: containers of a Docker Engine (`embedded://docker`).
"""
