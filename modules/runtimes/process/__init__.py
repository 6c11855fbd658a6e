"""The embedded container runtime: a CRI v1 server whose containers are plain, unisolated processes of the machine.

edgecore starts it when the configured endpoint is the embedded one, as KubeEdge's edged started dockershim, and talks
to it over gRPC like to any other runtime. A request passes `server`, `service` and one of `sandboxes`, `containers`,
`execution` and `images`. Below these, `shim_manager` and `process_watcher` talk to the processes of `shim/`, parents
of the containers. See docs/embedded-runtime.md.

Nothing is imported here, because the other runtimes inside edgecore use some of these modules and not the containers:
`EmbeddedRuntime` is in `runtime`, `purge` in `engine`.
"""
