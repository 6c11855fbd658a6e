"""The driver of the runtime whose containers are plain, unisolated processes of the machine (`embedded://`).

`driver` is what the engine uses. Below it, `shim_manager` and `shim_spawner` talk to the processes of
`modules.runtimes.shim`, the parents of containers, and `container_plan` decides what a shim prepares. See
docs/runtimes.md.
"""
