"""Certificates of nodes as KubeEdge's cloudcore hands them out (spec/03 §4): a node that knows a token gets one, a
node that has one gets the next.

`authority` makes and signs certificates, `store` keeps the authority in a directory, `tokens` makes and checks
tokens, `enrolment` decides what a request gets, `https` is the server, `registrar` the module that runs it,
`contexts` the TLS settings of both servers, `names` who is who. Only `authority` and `store` import `cryptography`,
and only a cloudcore with TLS imports them.
"""
