"""servicebus: HTTP between the cloud's router and applications on the node.

`module` is the actor; `application_calls` converts the cloud's requests to applications, and their answers;
`local_service` serves applications that call the cloud.
"""
