"""The store: a folder of append-only JSON lines, one file a run, one folder a node.

reader.py  records and run headers, torn last lines reported, other damage an error
writer.py  one line at a time, flushed and on disk before the next point starts
query.py   SQL over all records
"""
