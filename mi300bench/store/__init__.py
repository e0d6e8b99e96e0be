"""The store: a folder per node, with a file of append-only JSON lines per run.

reader.py  reads runs; skips and reports a torn last line, raises on other damage
writer.py  writes a run, each record to disk before the next point starts
select.py  chooses the records of one curve
newest.py  the newest run of each point
query.py   SQL over all records
"""
