"""Commands that tune, export and run a trainer.

autotune.py  the whole job: measure, tune, confirm, report
tune.py      a config from the records of the store
explain.py   the reasons of a tuned config
export.py    a tuned config for another framework
plan.py      a training step compiled without its weights
train.py     a training run
"""
