"""kubectl's grammar: verbs, arguments and output, for every server of the Kubernetes API.

`cloudcore get` and `edgecore get` are the same code with different connections: an entry point passes a function that
makes the `RestClient`, and `cli.add_verbs` adds the commands. Nothing here knows cloudcore or edgecore.
"""
