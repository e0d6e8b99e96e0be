"""The report is a function of the store: the same records give the same bytes.

builder.py    every section of the page, in order
header.py     the lines above the sections, and the headline
sections/     one module for each group of sections
elements.py   the page as plain data
charts/       plain data to SVG
render.py     the page to one HTML file
machines.py, peaks.py, as_text.py   what several sections need
"""
