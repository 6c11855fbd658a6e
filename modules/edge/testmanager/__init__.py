"""testmanager: creates and reads the objects of a node under test, over HTTP (KubeEdge's module testManager).

`module` is the actor with its server, which decodes and serves the requests; `token` checks the client's token.
"""
