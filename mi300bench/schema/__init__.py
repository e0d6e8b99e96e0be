"""The data types that all layers share. They need no framework.

record.py        the record of a measurement, its outcome, origin, work and world
codec.py         records to JSON and back; upgrades of old schemas
conditions.py    the names of a record's conditions
comparable.py    which records may be compared
doubt.py         the kinds of doubt, with their sentences
plan.py          points and plans: what to measure, how long and how often
probe.py         the interface of a probe
trainer.py       the interface of a trainer
model.py         intervals, predictions and model descriptions
candidate.py     a candidate of the tuner
config.py        the tuned config
config_tree.py   the config of a trainer as a tree of dataclasses
run_settings.py  the settings of a training run
"""
