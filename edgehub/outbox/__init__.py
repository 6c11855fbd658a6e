"""The outbox: keeps messages on the disk before they leave and until the cloud has them.

It is a file beside metamanager's database, not a table in it, for three reasons. SQLite lets one connection write at a
time, so acknowledgements would wait for events and events for acknowledgements, each with its own flush. metamanager's
database may be any that SQLAlchemy supports, across a network, or one that KubeEdge's tools read. And damage to one
file must not affect the other.

`edgehub.outgoing` decides, `store` is the contract of the storage, `sqlite` implements it in a file, `manager` has the
actor that writes it and connects it to the module, `recording` records it in a trace.
"""
