"""From fitted curves to a choice. Runs nothing itself: what is to be confirmed is handed back to flow.

space.py   candidates, those that come to the same thing counted once
search.py  the candidates in the order of their predicted step
decide.py  the pick after fresh runs: faster, same (the default is kept) or slower
zaya1.py   the choices of this trainer
"""
