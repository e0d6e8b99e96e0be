"""The report: a function of the store. Same records in, same bytes out.

page.py       records and a tuned config -> plain data
machine.py    the sections about the machine: memory, products, collectives, overlap
tuning.py     the sections about the choice: verdict, timeline, predicted against measured
figure.py     plain data -> SVG that follows the page's colours
render.py     plain data -> one HTML file
"""
