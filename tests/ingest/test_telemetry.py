"""rocm-smi: values worked out by hand from the sample."""

from mi300bench.ingest.formats import read

from tests.ingest.sample_files import sample


def test_a_card_is_one_row_with_all_its_samples() -> None:
    first, second = sample("rocm_smi.csv").rows[:2]
    assert first.stated["memory_used_bytes"] == (297795584, 158729355264)
    assert second.stated["gpu_use_percent"] == (97, 18)
    assert first.no_speed and not first.seconds


def test_a_sample_with_a_missing_value_is_left_out_of_every_series() -> None:
    text = (
        "device,GPU use (%),VRAM Total Used Memory (B)\ncard0,50,100\ncard0,N/A,200\ncard0,70,300\n"
    )
    (row,) = read(text, kind="rocm-smi", name="x").rows
    assert row.stated == {"gpu_use_percent": (50.0, 70.0), "memory_used_bytes": (100.0, 300.0)}
