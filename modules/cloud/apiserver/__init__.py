"""The embedded API server: validation, patches and admission of objects, and their HTTP endpoints.

`module` is its actor, `endpoints` and `access` its border to clients, `cluster` its implementation.
`modules.cloud.storage` has the objects, `modules.cloud.authorization` the rights of nodes. Nothing here imports
cloudhub or a controller.
"""
