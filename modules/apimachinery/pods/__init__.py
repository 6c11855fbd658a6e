"""What follows from a pod's spec alone, for nodes and the cloud alike: requests, QoS class, where it may run;
and which of its conditions its node decides.
"""
