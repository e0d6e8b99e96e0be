from mi300bench.schema.record import World, short_hash

from mi300bench_reports.sections.training import runs, scaling


def step(make_record, devices: int, taken_s: float, *, batch: int, pass_index: int = 0):
    return make_record(
        "lora405b.step",
        params={"preset": "small", "data.batch": batch, "data.seq_len": 128},
        world=World(ranks=devices, threads=1, framework="jax"),
        samples=(taken_s,) * 5,
        pass_index=pass_index,
        point=short_hash([devices, batch]),
        id=f"{devices}-{batch}-{pass_index}",
    )


def test_efficiency_is_the_step_on_the_fewest_devices_over_the_step(make_record) -> None:
    records = [step(make_record, n, s, batch=4 * n) for n, s in ((4, 1.25), (1, 1.0), (2, 1.0))]
    section = scaling(records)
    assert section is not None and section.table is not None
    rows = section.table.rows
    assert [(row[2], row[4]) for row in rows] == [("1", "100.0%"), ("2", "100.0%"), ("4", "80.0%")]
    assert {row[1] for row in rows} == {"4 x 128"}
    assert section.evidence == ("1-4-0", "2-8-0", "4-16-0")


def test_other_shares_of_the_batch_do_not_compare(make_record) -> None:
    assert scaling([step(make_record, n, 1.0, batch=8) for n in (1, 2)]) is None


def test_training_runs_have_their_losses(records) -> None:
    section = runs(records)
    assert section is not None and section.table is not None and section.chart
    (row,) = section.table.rows
    assert row[:4] == ("zaya1.train", "tiny", "5", "1")
    assert row[5:7] == ("5.0000 to 4.0000", "4.1000")


def test_a_run_may_have_no_held_out_loss(make_record) -> None:
    section = runs([make_record("zaya1.train", series={"loss": (2.0, 1.0)})])
    assert section is not None and section.table is not None
    assert section.table.rows[0][6] == "-"


def test_without_runs_there_is_no_section(make_record) -> None:
    assert runs([make_record()]) is None
