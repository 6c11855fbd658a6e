"""The certificates of nodes, as KubeEdge's cloudcore issues them (docs/protocol.md, "Joining"): the first by a token,
each next one by the last.

`authority` makes and signs certificates, `authority_files` stores the authority, `join_tokens` makes and checks tokens,
`enrolment` answers requests, `https` is the server, `registrar` the module that runs it, `contexts` the TLS settings of
both servers. Only `authority` and `authority_files` import `cryptography`, and only a cloudcore with TLS imports them.
"""
