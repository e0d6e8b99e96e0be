import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import tomli_w
from mi300bench.schema import config as tuned_config
from mi300bench.store.writer import RunWriter
from tests.samples import tuned

from mi300bench_training.zaya1.spec import TRAINER as ZAYA1


def run(*arguments: str, **parts) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "mi300bench", *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        **parts,
    )


@pytest.fixture
def store(tmp_path: Path, make_record) -> Path:
    with RunWriter(tmp_path / "runs", node="n1", header={}) as writer:
        writer.write(make_record())
        writer.finish()
    return tmp_path / "runs"


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "tuned.toml"
    path.write_text(tomli_w.dumps(tuned_config.to_document(tuned())))
    return path


def test_a_reader_that_leaves_early_is_no_error() -> None:
    end, closed_by_the_reader = os.pipe()
    os.close(end)
    answer = subprocess.run(
        [sys.executable, "-m", "mi300bench", "sweep", "list"],
        stdout=closed_by_the_reader,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
        timeout=120,
    )
    os.close(closed_by_the_reader)
    assert (answer.returncode, answer.stderr) == (0, "")


@pytest.mark.parametrize(
    "arguments",
    [
        ["--help"],
        ["hbm", "--help"],
        ["autotune", "--help"],
        ["sweep", "list"],
        ["train", "zaya1", "--preset", "zaya1-8b", "--describe"],
    ],
)
def test_light_commands_import_no_framework(arguments: list[str]) -> None:
    unwanted = {"torch", "jax", "pandas", "scipy", "matplotlib", "duckdb"}
    # The help of a command that fits may load what fits.
    unwanted |= set() if arguments[0] == "autotune" else {"numpy"}
    code = (
        f"import sys; sys.argv = ['mi300bench', *{arguments!r}]\n"
        "import runpy\n"
        "try:\n    runpy.run_module('mi300bench', run_name='__main__')\n"
        "except SystemExit:\n    pass\n"
        f"print(sorted({unwanted!r} & set(sys.modules)), file=sys.stderr)"
    )
    answer = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert answer.stderr.strip().splitlines()[-1] == "[]"


def test_no_command_loads_what_queries_need_before_it_runs() -> None:
    """The modules of all commands together import neither duckdb nor pandas; a query does."""
    code = (
        "import importlib, sys\n"
        "from mi300bench.cli.main import COMMANDS\n"
        "for module, _ in COMMANDS.values():\n"
        "    importlib.import_module(f'mi300bench.cli.{module}')\n"
        "loaded = [{'duckdb', 'pandas'} & set(sys.modules)]\n"
        "from mi300bench.store.query import query\n"
        "query([], 'SELECT 1')\n"
        "loaded += [{'duckdb', 'pandas'} & set(sys.modules)]\n"
        "print([sorted(names) for names in loaded])"
    )
    answer = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert answer.stdout.strip() == "[[], ['duckdb', 'pandas']]"


def test_every_command_and_every_option_has_help() -> None:
    import click
    from mi300bench.cli.main import COMMANDS, cli

    context = click.Context(cli)
    for name, (_, summary) in COMMANDS.items():
        command = cli.get_command(context, name)
        assert command is not None and command.help and summary
        nested = command.commands.values() if isinstance(command, click.Group) else [command]
        for each in nested:
            for parameter in each.params:
                assert isinstance(parameter, click.Argument) or getattr(parameter, "help", None), (
                    name,
                    parameter.name,
                )


@pytest.mark.parametrize(
    ("arguments", "status", "says"),
    [
        (["hbm", "--sizes", "12 parsecs"], 2, "12 parsecs"),
        (["hbm", "--patterns", "teleport"], 2, "teleport"),
        (["hbm", "--budget", "soon"], 2, "soon"),
        (["hbm", "--variants", "magic", "--device", "cpu"], 2, "magic"),
        (["gemm-sweep", "--layout", "tt"], 2, "tt"),
        (["hbm", "--dtype", "bf16,fp32"], 2, "bf16,fp32"),
        (["collectives", "--launch", "no-such-launcher", "--device", "cpu"], 2, "no-such-launcher"),
        (["autotune", "zaya1", "--rounds", "0", "--device", "cpu"], 2, "--rounds"),
        (["gemm-sweep", "--m", "0"], 2, "0"),
        (["gemm-sweep", "--m", "1", "--model", "zaya1"], 2, "--model"),
        (["gemm-sweep", "--m", "1:100000:+1"], 2, "10,000"),
        (["gemm-sweep", "--m", "1:64:+1", "--n", "1:64:+1", "--k", "8"], 2, "4096"),
        (["gemm-sweep", "--shapes", "nowhere.txt"], 2, "nowhere.txt"),
        (["gemm-sweep", "--model", "gpt9"], 2, "gpt9"),
        (["collectives", "--ops", "all_dance"], 2, "all_dance"),
        (["collectives", "--ranks", "1"], 2, "2 ranks"),
        (["collectives", "--ranks", "many"], 2, "many"),
        (["overlap", "--shapes", "12"], 2, "MxNxK"),
        (["hbm", "--origin", "emulated"], 2, "--source"),
        (["sweep", "run", "nothing"], 2, "nothing"),
        (["train", "zaya9"], 2, "zaya9"),
        (["train", "zaya1", "--preset", "huge"], 2, "huge"),
        (["train", "zaya1", "--resume"], 2, "--checkpoint"),
        (["train", "zaya1", "--steps", "0"], 2, "steps"),
        (["train", "zaya1", "--config", "none.toml"], 2, "none.toml"),
        (["autotune", "zaya1", "--only", "magic", "--device", "cpu"], 2, "magic"),
        (
            ["autotune", "zaya1", "--memory-limit", "0", "--device", "cpu"],
            2,
            "0 bytes",
        ),
        (["autotune", "zaya1", "--param-tolerance", "2", "--device", "cpu"], 2, "tolerance"),
        (["explain", "none.toml"], 2, "none.toml"),
        (["export", "none.toml", "--to", "ddp"], 2, "none.toml"),
        (["query", "--store", "nowhere"], 4, "nowhere"),
        (["report", "--store", "nowhere"], 4, "nowhere"),
        (["tune", "zaya1", "--store", "nowhere"], 4, "nowhere"),
        (["hbm", "--device", "rocm", "--sizes", "1M"], 3, "GPU"),
        (["no-such-command"], 2, "no-such-command"),
        (["autotun"], 2, "mean 'autotune'"),
    ],
)
def test_bad_requests_end_with_a_message_and_a_code(
    tmp_path: Path, arguments: list[str], status: int, says: str
) -> None:
    answer = run(*arguments, cwd=tmp_path)
    assert answer.returncode == status, answer.stderr
    assert says in answer.stderr and "Traceback" not in answer.stderr
    if not answer.stderr.startswith("Usage"):
        assert "Try: " in answer.stderr


def test_a_store_that_cannot_be_written_is_refused_before_anything_runs(tmp_path: Path) -> None:
    (tmp_path / "runs").write_text("a file")
    answer = run("hbm", "--sizes", "1M", "--device", "cpu", cwd=tmp_path)
    assert answer.returncode == 2 and "is a file" in answer.stderr


def test_a_read_only_store_is_refused_before_anything_runs(tmp_path: Path) -> None:
    answer = run("hbm", "--sizes", "1M", "--device", "cpu", "--store", "/proc/runs", cwd=tmp_path)
    assert (
        answer.returncode == 3
        and "cannot be written" in answer.stderr
        and "Traceback" not in answer.stderr
    )


def test_a_missing_framework_is_a_message(tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text("raise ImportError('No module named torch')")
    import os

    answer = run(
        "hbm",
        "--sizes",
        "1M",
        "--device",
        "cpu",
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
    )
    assert (
        answer.returncode == 3
        and "torch is not installed" in answer.stderr
        and "Traceback" not in answer.stderr
    )


def test_query_answers_on_stdout(store: Path) -> None:
    answer = run("query", "SELECT probe, seconds FROM records", "--store", str(store), "--json")
    assert json.loads(answer.stdout) == [{"probe": "memory.copy", "seconds": 1.0}]
    assert "memory.copy" in run("query", "--store", str(store)).stdout


def test_explain_and_export_read_the_tuned_config(config: Path) -> None:
    said = run("explain", str(config)).stdout
    assert "it is faster" in said and "abc" in said and "few passes" in said
    assert json.loads(run("explain", str(config), "ddp.bucket_cap_mb", "--json").stdout)[
        "ddp.bucket_cap_mb"
    ]["evidence"] == ["abc"]
    assert run("explain", str(config), "no.key").returncode == 2
    incomplete = run("export", str(config), "--to", "ddp")
    assert incomplete.returncode == 2 and "'preset'" in incomplete.stderr


def test_an_export_says_on_stderr_what_it_cannot_express(config: Path) -> None:
    whole = replace(tuned_config.read(config), config=ZAYA1.to_tables(ZAYA1.preset("small")))
    config.write_text(tomli_w.dumps(tuned_config.to_document(whole)))
    answer = run("export", str(config), "--to", "deepspeed")
    assert json.loads(answer.stdout)["train_micro_batch_size_per_gpu"] == 4
    assert "note: " in answer.stderr and "compute.experts=grouped" in answer.stderr


def test_describe_counts_the_8b_model_exactly() -> None:
    answer = run("train", "zaya1", "--preset", "zaya1-8b", "--describe", "--json")
    assert json.loads(answer.stdout) == {
        "params": {
            "total": 8_840_488_784,
            "without_embedding": 8_303_355_728,
            "active": 753_608_528,
        }
    }


@pytest.mark.torch
def test_hbm_prints_records_with_the_field_names_of_the_record(tmp_path: Path) -> None:
    answer = run(
        "hbm",
        "--patterns",
        "copy",
        "--sizes",
        "64K",
        "--variants",
        "op",
        "--passes",
        "1",
        "--device",
        "cpu",
        "--json",
        cwd=tmp_path,
    )
    assert answer.returncode == 0, answer.stderr
    (record,) = json.loads(answer.stdout)
    assert (
        record["probe"] == "memory.copy"
        and record["params"]["bytes"] == 65536
        and record["samples"]
    )
    again = run("sweep", "again", record["id"], "--passes", "1", "--json", cwd=tmp_path)
    assert json.loads(again.stdout)[0]["point"] == record["point"]


@pytest.mark.torch
def test_a_search_of_several_data_types_is_one_json_document(tmp_path: Path) -> None:
    axes = ["--m", "16:128:x2", "--n", "16:128:x2", "--k", "16:128:x2", "--device", "cpu"]
    answer = run("gemm-sweep", *axes, "--budget", "6s", "--json", cwd=tmp_path)
    assert answer.returncode == 0, answer.stderr
    records = json.loads(answer.stdout)
    assert {record["params"]["dtype"] for record in records} == {"bfloat16", "float32"}
    stored = [line for path in tmp_path.glob("runs/*/*.jsonl") for line in path.open()]
    assert sum('"line":"record"' in line for line in stored) == len(records)


def test_a_search_refuses_the_options_of_passes(tmp_path: Path) -> None:
    answer = run("gemm-sweep", "--budget", "1m", "--passes", "2", "--device", "cpu", cwd=tmp_path)
    assert answer.returncode == 2 and "--passes" in answer.stderr and "--budget" in answer.stderr


@pytest.mark.torch
def test_collectives_print_the_columns_of_rccl_tests(tmp_path: Path) -> None:
    answer = run(
        "collectives",
        "--ops",
        "all_reduce",
        "--sizes",
        "1K,1M",
        "--ranks",
        "2",
        "--passes",
        "1",
        "--device",
        "cpu",
        cwd=tmp_path,
    )
    assert answer.returncode == 0, answer.stderr
    header = next(line for line in answer.stdout.splitlines() if "algbw" in line).split()
    assert header[:9] == [
        "size",
        "count",
        "type",
        "redop",
        "root",
        "time",
        "algbw",
        "busbw",
        "#wrong",
    ]


@pytest.mark.torch
def test_collectives_join_the_group_of_an_outside_launcher(tmp_path: Path) -> None:
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    sizes = ["--ops", "all_reduce", "--sizes", "1K,64K", "--device", "cpu", "--json"]
    command = [*launcher, "-m", "mi300bench", "collectives", *sizes]
    answer = subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=120, cwd=tmp_path
    )
    assert answer.returncode == 0, answer.stderr
    records = json.loads(answer.stdout)
    assert len(records) == 2 and all(
        r["world"]["ranks"] == 2 and r["conditions"]["launcher"] == "outside" for r in records
    )
    assert any(doubt["kind"] == "few-passes" for doubt in records[0]["doubts"])


@pytest.mark.torch
def test_node_tells_the_machine_and_torch() -> None:
    answer = run("node", "--json", "--device", "cpu")
    document = json.loads(answer.stdout)
    assert (
        document["torch"]["conditions"]["framework"] == "torch"
        and document["inventory"]["cores"] >= 1
    )
