#!/usr/bin/env bash
# A bare wheel in a clean environment, without torch, must be useful: help, query, explain, export, report.
set -euo pipefail
python=${1:-python3}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
root=$(cd "$(dirname "$0")/../.." && pwd)
"$python" -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip wheel --quiet --no-deps --wheel-dir "$folder/dist" "$root"
"$folder/venv/bin/python" -m pip install --quiet "$folder"/dist/*.whl
cd "$folder"
export PATH="$folder/venv/bin:$PATH"
mi300bench --help > /dev/null
mi300bench sweep list | grep -q hbm
mi300bench sweep plan hbm --device cpu > /dev/null
mi300bench train zaya1 --preset zaya1-8b --describe --json | grep -q 8840488784
python - <<'EOF'
from pathlib import Path
from mi300bench.schema.record import Measurement, Outcome, Work
from mi300bench.store.writer import RunWriter
with RunWriter(Path("runs"), node="n", header={}) as writer:
    writer.write(Measurement(probe="memory.copy", method=1, params={"bytes": 8, "variant": "op"}, outcome=Outcome.OK,
                             samples=(1.0,), work=Work(bytes_read=8, bytes_written=8), node="n", run=writer.run_id))
EOF
mi300bench query --json | grep -q memory.copy
mi300bench report > /dev/null
test -s report.html
status=0; message=$(mi300bench hbm --sizes 1M --device cpu 2>&1) || status=$?
test "$status" -eq 3
grep -q "torch is not installed" <<< "$message"
echo "the bare wheel works"
