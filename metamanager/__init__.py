"""metamanager: what the node must know, in a database, so that it starts and runs without the cloud.

`metamanager.module` is the module, `metamanager.store` the database; other packages ask through
`metamanager.client`, and import nothing else from here.
"""
