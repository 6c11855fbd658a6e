"""The node's certificate: fetched with a token when there is none, renewed before it ends (spec/03 §4).

`token`, `der`, `certificate`, `rules` and `diagnosis` are decisions without effects. `files` keeps the files; `fetch`,
`keys` and `obtain` talk to the cloud and make keys. They run only in short processes (`issue`, started by `issuer`;
and `edgecore join`), because making a key takes the `cryptography` package, for whose memory the agent has no use.
`keeper`, `link` and `renewal` tie that to edgehub.
"""
