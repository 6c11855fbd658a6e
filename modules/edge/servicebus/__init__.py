"""servicebus: HTTP between the cloud's router and applications on the node.

`module` is the actor. `application_calls` converts the cloud's requests to applications, and their answers, and
`method_calls` reads the calls of mappers' methods. `local_service` serves applications that call the cloud, at
`allowed_urls`.
"""
