"""Which certificates, nodes and tokens the cloud accepts: revocations, the owner key of each node name, and the
tokens that let nodes join.

`records` are the stored identities, a ConfigMap each; `rules` decide and are pure; `known` answers the servers, on any
thread; `module` is the actor that watches and writes the records. `peer` reads the certificate of a client.
"""
