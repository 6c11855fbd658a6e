"""The embedded API server: storage, validation, patches, kubectl's commands, authorization of nodes.

`module` is its actor, `endpoints` and `access` its border to clients, `cluster` its implementation, `storage` the
objects in memory, `database` their durable copy, `transactions` the group commit of both. Nothing here imports cloudhub
or a controller.
"""
