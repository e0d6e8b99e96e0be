"""Published figures of devices, for tuning without a measurement.

assumptions.py  values that we assume where nothing is published
figures.py      a device's published figures, and records that are made from them
"""
