"""The reference trainers by name: their specs, and a run of one."""
