"""One loop for every trainer: measure, search, confirm by fresh runs, decide.

autotune.py        the whole job: measure in stages, then tune within the rest of the budget
tune.py            from records to a tuned config
search.py          rank candidates by their predicted step; choose which get fresh runs
confirm.py         fresh interleaved runs of the chosen candidates
decide.py          the pick, from the medians of fresh runs
choices.py         the choices of a config, each with its reason and alternatives
doubts.py          the doubts of records, as sentences
from_published.py  a config for a device that nobody measured, from published figures
result.py          what tuning returns; the config as a file
"""
