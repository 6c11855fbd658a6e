"""The garbage collector and the namespace controller of the embedded API server: what follows from a deletion."""
