"""testmanager: creates and reads the objects of a node under test, over HTTP (KubeEdge's module `testManager`).

`module` is the actor with its server, `api` serves its requests, `objects` decodes them (pure), `token` checks the
client's token.
"""
