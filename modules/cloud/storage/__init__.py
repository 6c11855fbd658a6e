"""The storage of the API server and of the controllers: objects in memory, their durable copy, and changes of them.

`object_storage` has the objects of all kinds, `database` their copy in SQLite or PostgreSQL, `transactions` the group
commit of both, `watch_history` the changes that a watch begins with, `object_sync` what the nodes have received.
"""
