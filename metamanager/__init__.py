"""metamanager: keeps the node's objects in a database, so that the node starts and runs without the cloud.

`metamanager.module` is the module, `metamanager.store` the database. Other packages use `metamanager.client`, and
import nothing else from here.
"""
