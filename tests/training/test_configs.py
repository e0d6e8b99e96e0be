"""Configs of every trainer as tables, as parameters of points, and with keys set."""

import tomllib
from collections.abc import Iterator
from typing import Any

import pytest
import tomli_w
from mi300bench.errors import PlanError
from mi300bench.schema.trainer import TrainerSpec
from mi300bench.trainers.registry import names, spec_of

SPECS = [spec_of(name) for name in names()]
PRESETS = [
    pytest.param(spec, spec.preset(name), id=f"{spec.name}-{name}")
    for spec in SPECS
    for name in spec.presets
]
# Keys that each config accepts, with values other than those of every preset.
CHANGES: dict[str, dict[str, Any]] = {
    "zaya1": {"ddp.bucket_cap_mb": [1.0, 50.0], "data.micro_batch": 6, "optimizer.lr": 1e-5},
    "lora405b": {"data.batch": 48, "compute.unroll": 3, "lora.dropout": 0.25},
}


def leaves(spec: TrainerSpec, config: Any) -> Iterator[tuple[str, Any]]:
    """Yield each dotted key of a config with its value."""
    for name, value in spec.to_tables(config).items():
        if name in spec.parts:
            yield from ((f"{name}.{key}", each) for key, each in value.items())
        else:
            yield name, value


@pytest.mark.parametrize(("spec", "config"), PRESETS)
def test_a_config_comes_back_from_its_tables_and_from_toml(spec: TrainerSpec, config: Any) -> None:
    tables = spec.to_tables(config)
    assert spec.from_tables(tables) == config
    assert spec.from_tables(tomllib.loads(tomli_w.dumps(tables))) == config
    changed = spec.override(config, CHANGES[spec.name])
    assert spec.from_tables(spec.to_tables(changed)) == changed != config


@pytest.mark.parametrize(("spec", "config"), PRESETS)
def test_a_config_comes_back_from_the_parameters_of_a_point(spec: TrainerSpec, config: Any) -> None:
    assert spec.from_params(spec.point_params(config, {})) == config
    keys = CHANGES[spec.name]
    params = spec.point_params(spec.override(config, keys), keys)
    assert all(isinstance(value, str | int | float | bool) for value in params.values())
    assert set(params) == {"preset", *spec.point_keys, *keys}
    assert spec.from_params(params) == spec.override(config, keys)


@pytest.mark.parametrize(("spec", "config"), PRESETS)
def test_keys_are_set_at_once_and_nothing_else_changes(spec: TrainerSpec, config: Any) -> None:
    assert spec.override(config, {}) == config
    keys = CHANGES[spec.name]
    before, after = (dict(leaves(spec, each)) for each in (config, spec.override(config, keys)))
    assert {key for key in before if before[key] != after[key]} == set(keys)
    assert all(spec.value_of(spec.override(config, keys), key) == keys[key] for key in keys)
    everything = dict(leaves(spec, config))
    assert spec.override(config, everything) == config


@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: spec.name)
@pytest.mark.parametrize(
    ("key", "known"),
    [
        ("colour", "steps"),
        ("data.colour", "seq_len"),
        ("colour.red", "optimizer"),
        ("data", "steps"),
    ],
)
def test_an_unknown_key_is_refused_and_the_known_ones_are_listed(
    spec: TrainerSpec, key: str, known: str
) -> None:
    with pytest.raises(PlanError, match=f"'{key}'") as caught:
        spec.override(spec.preset("tiny"), {key: 1})
    assert known in caught.value.hint


@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: spec.name)
def test_incomplete_tables_and_unknown_keys_in_them_are_refused(spec: TrainerSpec) -> None:
    tables = spec.to_tables(spec.preset("tiny"))
    with pytest.raises(PlanError, match="colour") as caught:
        spec.from_tables(tables | {"colour": 1})
    assert "steps" in caught.value.hint
    with pytest.raises(PlanError, match="colour"):
        spec.from_tables(tables | {"data": tables["data"] | {"colour": 1}})
    with pytest.raises(PlanError, match="model"):
        spec.from_tables({name: value for name, value in tables.items() if name != "model"})
    with pytest.raises(PlanError, match="data"):
        spec.from_tables(tables | {"data": 3})


@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: spec.name)
def test_each_value_of_another_type_is_refused(spec: TrainerSpec) -> None:
    """An object is of no field's type; every key has to be checked."""
    config = spec.preset("tiny")
    for key, value in leaves(spec, config):
        with pytest.raises(PlanError, match=key.rpartition(".")[2]):
            spec.override(config, {key: {"of": value}})


@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: spec.name)
def test_an_unknown_preset_lists_the_known(spec: TrainerSpec) -> None:
    with pytest.raises(PlanError, match="enormous") as caught:
        spec.preset("enormous")
    assert all(name in caught.value.hint for name in spec.presets)
