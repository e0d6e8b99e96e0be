from pathlib import Path

from mi300bench.api.reporting import write_report
from mi300bench.store.writer import RunWriter


def test_the_report_is_written_whole(tmp_path: Path, records) -> None:
    with RunWriter(tmp_path / "runs", node="n1", header={}) as writer:
        for record in records:
            writer.write(record)
    out = tmp_path / "new" / "report.html"
    write_report(tmp_path / "runs", out, tuned=None, node="", warn=lambda _: None)
    assert out.read_text().rstrip().endswith("</html>")
    assert list(out.parent.iterdir()) == [out]
