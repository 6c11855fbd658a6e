"""dynamiccontroller: the cloud's half of the metaserver. It takes a node's Applications, has edgecontroller carry them
out, and sends the answers (spec/05 §9).
"""
