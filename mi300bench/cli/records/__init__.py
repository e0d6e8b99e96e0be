"""Commands that read records.

query.py    SQL on the records
compare.py  nodes, runs and folders compared
lint.py     figures checked against physics and published peaks
import_.py  logs of other tools into the store
report.py   the store as one HTML file
"""
