"""The reference trainers as the library runs them.

registry.py   the trainers by name: what each declares, and functions of its code
launching.py  how the processes of a trainer start
run.py        a training run: config in, record in the store
scaling.py    the steps that show how a trainer scales with devices
"""
