"""The module router: Rules between HTTP in the cloud, and MQTT and HTTP servers on nodes.

`module` is the actor. `rest_service` serves callers, and `callers` authenticates them; `records` reads Rules,
`routing_table` has them by what they match, by `paths` and `topics`; `subscriptions` tells nodes, `deliveries` takes
their messages, `outgoing` calls servers, and `status_writer` writes statuses.
`other_cloudcores` passes calls of nodes on that are connected elsewhere.
"""
