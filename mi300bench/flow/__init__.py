"""The jobs that join the layers: measure into the store, tune from it, confirm, train, report.

world.py     which device, how many ranks and threads
settings.py  what every measuring command is told
measure.py   a plan into the store
plans.py     the plans of the commands
sweepfile.py sweeps written as TOML
trainers.py  the trainers, found by catalogue string
evidence.py  fits from a store
tuning.py    store -> tuned config, with fresh runs
autotune.py  the whole job
training.py  a run of a trainer, its records into the store
"""
