"""Kinds of parallelism: what each has to measure, how it predicts a step, what fits."""
