"""Read what other tools wrote, as records of origin `imported`.

store_files.py    files into the store, each as a run of its own
formats.py        the table of formats, and how each is recognised
reading.py        what a reader returns, and what the readers share
collectives.py    rccl-tests and nccl-tests: table, JSON and CSV
memory.py         BabelStream: table and CSV
products.py       hipblaslt-bench and mamf-finder
transferbench.py  TransferBench's CSV
benchmarks.py     pytest-benchmark's JSON
telemetry.py      rocm-smi's CSV
"""
