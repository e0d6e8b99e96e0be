from dataclasses import replace

import pytest
from mi300bench.errors import PlanError
from mi300bench.export.ddp import ddp_keywords, export
from tests.schema.test_config import tuned


def with_caps(caps):
    return replace(tuned(), config={"ddp": {"bucket_cap_mb": caps}})


def test_units_are_mebibytes_and_the_default_is_left_unset() -> None:
    assert ddp_keywords(with_caps("default")) == {}
    assert ddp_keywords(with_caps(5.0)) == {"bucket_cap_mb": 5.0}
    assert ddp_keywords(with_caps([1.0, 50.0])) == {"bucket_cap_mb_list": [1.0, 50.0]}


@pytest.mark.torch
@pytest.mark.parametrize(
    ("caps", "limits"),
    [("default", (2**20, 25 * 2**20)), (0.5, (2**19,)), (5.0, (5 * 2**20,)), ([1.0, 50.0], (2**20, 50 * 2**20))],
)
def test_the_exported_lines_run_and_ddp_uses_what_was_tuned(caps, limits, monkeypatch) -> None:
    import torch
    import torch.distributed as dist

    monkeypatch.setenv("MASTER_ADDR", "127.0.0.1")
    monkeypatch.setenv("MASTER_PORT", "0")
    dist.init_process_group("gloo", rank=0, world_size=1, store=dist.HashStore())
    try:
        names = {"model": torch.nn.Linear(8, 8)}
        exec(compile(export(with_caps(caps), "ddp"), "exported.py", "exec"), names)
        wrapped = names["model"]
        if isinstance(caps, list):
            assert tuple(wrapped.bucket_bytes_cap_list) == limits
        else:
            config = wrapped._bucket_config
            used = (config.first_bucket_bytes_cap, config.bucket_bytes_cap)
            assert tuple(dict.fromkeys(used)) == limits
    finally:
        dist.destroy_process_group()


def test_the_evidence_and_the_verdict_come_along() -> None:
    text = export(tuned(), "ddp")
    assert "confirmed: 1,50 MiB against the default: faster" in text and "MiB" in text and "torch 2.13" in text


def test_an_unknown_target_lists_the_known() -> None:
    with pytest.raises(PlanError) as caught:
        export(tuned(), "abacus")
    assert "ddp" in caught.value.hint


def test_a_config_without_a_bucket_cannot_be_exported() -> None:
    with pytest.raises(PlanError, match="bucket_cap_mb"):
        export(replace(tuned(), config={}), "ddp")
