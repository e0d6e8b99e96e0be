"""A mesh of devices in one process: the compiler gathers weights and reduces activations.

strategy.py      the strategy: answers the questions of the tuning loop
stages.py        the points to measure, in stages
placement.py     the meshes that a job can have, and what this machine can run of them
evidence.py      from records to predictors
predictor.py     the predicted step of a candidate
traffic.py       the communication of a mesh, from the curves of collectives
memory.py        whether a candidate fits into memory
compile_step.py  a step compiled without weights, as a record
planning.py      the seconds of a compiled step, and the largest batch that fits
jax_client.py    JAX's memory pool and XLA's combining of collectives
published.py     records from published figures, for a device that nobody measured
"""
