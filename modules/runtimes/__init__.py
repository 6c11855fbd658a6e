"""The container runtimes inside edgecore. Each is a CRI v1 server, which edged knows by CRI alone, like containerd.

- `cri_server`: the server of CRI around an engine.
- `engine`: sandboxes, containers, their records, recovery and events, for all kinds. Each kind below is a driver of it.
- `process`: containers that are plain processes (`embedded://`), and `shim`, the parents of these processes.
- `oci`: containers that crun or runc isolates (`embedded://oci`).
- `docker`: containers of a Docker Engine (`embedded://docker`).
"""
