"""From fitted curves to a choice. Runs nothing itself: what is to be confirmed is handed back to flow.

space.py        candidates, those that come to the same thing counted once
search.py       the candidates in the order of their predicted step
decide.py       the pick after fresh runs: faster, same (the default is kept) or slower
choices.py      why each key has its value, in the tuned config's words
buckets.py      DDP's packing of gradients, and the caps that differ in it
shapes.py       model shapes of as many parameters, by what their products cost
shapesearch.py  the best product of a grid, without measuring the whole grid
mesh.py         ways to lay devices out, and what a step on each costs
zaya1.py        the choices of this trainer
"""
