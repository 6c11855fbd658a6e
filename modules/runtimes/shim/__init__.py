"""The processes between edgecore and a container: one shim for each running container, and the shim spawner.

A container must outlive edgecore, with its log still written and its exit code kept; so its parent cannot be edgecore.
The parent is a *shim* (as in containerd): a small process that holds the log pipes, reaps all processes of the
container and records its exit. The *shim spawner*, a process with nothing but this package loaded, forks the shims: a
fork takes a millisecond, a Python interpreter for each container thirty.

This package runs without site-packages (`python -I -S`), so it imports only a little of the standard library, and
`beehive.files`, which does the same.
"""
