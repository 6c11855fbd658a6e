"""The outbox: what must reach the cloud is on the disk before it leaves, and until the cloud has it.

It is a file of its own beside metamanager's database, and not a table in that. SQLite lets one connection write at a
time: acknowledgements would wait for events and events for acknowledgements, each with its own flush. metamanager's
database may also be any that SQLAlchemy knows, across a network, or one that KubeEdge's tools look into. And a file
that has gone bad must not take the other with it.

`edgehub.outgoing` decides, `store` is the contract of what keeps, `sqlite` the file, `writer` the actor on whose thread
it is written, `keeper` what the module holds of all this, `recording` what a recorder is told.
"""
