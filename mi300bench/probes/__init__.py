"""What can be measured: catalog.py lists it without importing a framework, one file per family does it."""
