"""The embedded API server: storage, validation, patches, kubectl's commands, authorization of nodes.

`client` is its border to the controllers, `cluster` its implementation, `storage` the objects in memory, `database`
their durable copy, `transactions` the group commit of both. Nothing here imports cloudhub or a controller.
"""
