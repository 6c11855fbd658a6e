"""The module router: Rules between HTTP in the cloud, and MQTT and HTTP servers on nodes.

`module` is the actor. `rest_service` serves callers, and `callers` authenticates them; `records` reads Rules, and
`routing_table` finds them by `paths` and `topics`. `subscriptions` tells nodes which topics to subscribe to,
`deliveries` takes their messages and calls servers, and `status_writer` writes statuses. `other_cloudcores`
passes on calls of nodes that are connected elsewhere.
"""
