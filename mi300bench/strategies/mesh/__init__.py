"""A mesh of devices of one process: weights gathered, activations reduced, by the compiler."""
