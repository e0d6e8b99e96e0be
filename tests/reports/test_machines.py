from mi300bench.schema.record import Origin

from mi300bench_reports.machines import by_machine


def test_one_machine_needs_no_name(make_record) -> None:
    records = (make_record(), make_record("gemm"))
    assert by_machine(records) == {"": records}


def test_machines_are_named_by_node_device_and_origin(make_record) -> None:
    records = [
        make_record(),
        make_record(node="n2"),
        make_record(origin=Origin.EMULATED, source="namespaces"),
    ]
    assert list(by_machine(records)) == [
        "n1 a CPU",
        "n2 a CPU",
        "n1 a CPU emulated namespaces",
    ]


def test_logs_of_one_machine_belong_together(make_record) -> None:
    logs = [make_record(origin=Origin.IMPORTED, source=name) for name in ("a.log", "b.log")]
    assert [len(own) for own in by_machine(logs).values()] == [2]
