"""The demo's README says of its experiments what their committed rows say."""

import csv
import re
from pathlib import Path
from types import SimpleNamespace

import pytest

from benchmarks import report
from model_zoo_demo import config as configs
from model_zoo_demo import dsa, recall, runlog, summary
from model_zoo_demo.train import CONFIGS

DEMO = CONFIGS.parent
README = (DEMO / "README.md").read_text()
RESULTS = DEMO / "results"


def section(heading):
    """Its text, without sections below it."""
    return README.split(f"\n## {heading}\n", 1)[1].split("\n## ", 1)[0]


def table(text):
    """First cell -> the others of the rows of a section's table."""
    rows = re.findall(r"^\|(.*)\|$", text, re.MULTILINE)[2:]
    cells = ([cell.strip() for cell in row.split("|")] for row in rows)
    return {first.strip("`"): rest for first, *rest in cells}


def runs_of(name):
    """Run to rows of an experiment, which are few."""
    path = RESULTS / name / "log.csv"
    assert path.read_text().count("\n") <= 300
    return summary.read(path)


def steps_of(records, steps):
    """The records of steps, of which the first and the last are there."""
    found = [r for r in records if "loss" in r]
    assert (found[0]["step"], found[-1]["step"], records[-1]["step"]) == (0, steps - 1, steps)
    return found


def check_recall(text):
    config, task = recall.load(CONFIGS / "recall.json")
    stated = table(text)
    assert [*stated] == ["nsa", "window", f"chance, 1/{task.values}"]
    assert stated[f"chance, 1/{task.values}"][0] == f"{100 / task.values:.2f} %"
    final = {}
    for name in ("nsa", "window"):
        records = runs_of("recall")[name]
        losses = steps_of(records, task.steps)
        assert [r["length"] for r in losses] == [task.stage(r["step"])[0] for r in losses]
        final[name] = records[-1]["final"]
        assert records[-1]["length"] == 4096
        minutes = losses[-1]["seconds"] / 60
        assert stated[name] == [f"{100 * final[name]:.2f} %", f"{minutes:.0f} min"]
        assert minutes <= 60
    assert final["nsa"] >= 0.95 and abs(final["window"] - 1 / task.values) < 0.01
    for number in (task.steps, task.evaluation, task.evaluation * task.questions):
        assert f"{number:,}" in text
    reach = config.layers * config.window_size
    for number in (task.gap, reach, task.gap - reach, 2 * task.questions):
        assert re.search(rf"\b{number} tokens", text), number


def check_comparison(text):
    config = configs.load(CONFIGS / "compare.json")
    stated, last, minutes = table(text), {}, {}
    assert [*stated] == ["nsa", "window", "dense"]
    for name in stated:
        records = runs_of("compare")[name]
        minutes[name] = steps_of(records, config.steps)[-1]["seconds"] / 60
        last[name] = records[-1]["validation"]
        assert minutes[name] <= 30
    for name, value in last.items():
        ratio = f"{value / last['dense']:.4f}"
        assert stated[name] == [f"{value:.4f}", ratio, f"{minutes[name]:.0f} min"]
    assert last["nsa"] <= 1.02 * last["dense"]
    check_rates(text[text.index("It is not the learning rate") :])
    assert config.context == 2048 and config.eval_bytes >= 200e3
    assert f"{config.steps * config.tokens_per_step / 1e6:.1f} M tokens" in text


def check_rates(text):
    config = configs.load(CONFIGS / "rates.json")
    rates = [
        float(rate)
        for rate in re.search(r"at ([0-9., and]+) \(`--rates`", text)[1]
        .replace(" and", ",")
        .split(", ")
    ]
    last = {}
    for run, records in runs_of("rates").items():
        name, rate = run.rsplit("-", 1)
        steps = steps_of(records, config.steps)
        assert max(r["rate"] for r in steps) == pytest.approx(float(rate))
        last.setdefault(name, {})[float(rate)] = records[-1]["validation"]
    assert [*last] == ["nsa", "window", "dense"]
    for name, of in last.items():
        assert [*of] == rates
        assert re.search(rf"`{name}` (has )?{min(of.values()):.4f}", text.replace("\n", " "))
        assert all(of[rate] <= last["dense"][rate] for rate in rates)
    assert f"context {config.context}, {config.steps} steps" in text
    assert f"{config.steps * config.tokens_per_step / 1e6:.1f} M tokens" in text
    assert f"{config.eval_bytes / 1e3:.0f} kB" in text


def check_demo(text):
    config = configs.load(CONFIGS / "demo.json")
    (records,) = runs_of("demo").values()
    steps = steps_of(records, config.steps)
    losses = [r["train"] for r in steps]
    measured = [r["validation"] for r in records if "validation" in r]
    assert {name: rest[0] for name, rest in table(text).items()} == {
        "first step": f"{losses[0]:.4f}",
        "last step": f"{losses[-1]:.4f}",
        "validation": f"{measured[-1]:.4f}",
    }
    assert f"{steps[-1]['seconds']:.0f} seconds of steps" in text
    # A figure shows the blocks that it selects, and the text describes them.
    assert f"block of {config.select_block_size} bytes" in text
    assert f"reads {config.select_block_count} blocks" in text
    assert f"at byte {config.select_block_size * config.select_block_count}:" in text
    sample = (RESULTS / "demo" / "sample.txt").read_text()
    blocks = re.findall(r"^```text\n(.*?)\n```$", text, re.MULTILINE | re.DOTALL)
    # Spaces at the ends of lines are not for documents.
    assert [[line.rstrip() for line in block.splitlines()] for block in blocks] == [
        [line.rstrip() for line in sample.rstrip().splitlines()]
    ]


def check_conversion(text):
    config = configs.load(CONFIGS / "convert.json")
    stated, validation = table(text), {}
    assert [*stated] == ["dense", "converted", "shared", "nsa"]
    for name, cells in stated.items():
        records = runs_of("conversion")[name]
        steps_of(records, 100)
        losses = [r["validation"] for r in records if "validation" in r]
        validation[name] = losses[0], losses[-1]
        assert cells[:2] == [f"{losses[0]:.4f}", f"{losses[-1]:.4f}"]
    lost = validation["converted"][0] - validation["dense"][0]
    assert 0 < lost < 0.01 and f"loses {lost:.4f} bits" in text
    last = {name: losses[1] for name, losses in validation.items()}
    assert last["nsa"] < min(last["converted"], last["shared"])
    assert max(last["converted"], last["shared"]) < last["dense"]
    assert f"{config.steps} steps of {config.tokens_per_step:,} bytes" in text
    assert f"reads {config.select_block_count} blocks of {config.select_block_size} bytes" in text
    assert f"first {config.select_block_count * config.select_block_size}\n" in text
    assert f"{config.eval_bytes / 1e3:.0f} kB" in text


def check_throughput(text):
    with open(RESULTS / "throughput" / "training.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    measured = {int(r["tokens"]): (float(r["rate"]), float(r["speedup_over_dense"])) for r in rows}
    assert [*measured] == [2048, 8192, 32768]
    assert {int(name): rest for name, rest in table(text).items()} == {
        tokens: [f"{rate:.0f}", f"{rate / ratio:.0f}", f"{ratio:.2f}"]
        for tokens, (rate, ratio) in measured.items()
    }
    line = report.crossover(
        [
            SimpleNamespace(kind="training", tokens=tokens, peers={"dense": ratio})
            for tokens, (_, ratio) in measured.items()
        ]
    )
    numbers = re.findall(r"\d+", line)
    assert len(numbers) == 3 and all(number in text for number in numbers), line
    for name in ("README.md", "README.zh-CN.md"):
        assert f" {round(int(numbers[2]), -2):,} " in (DEMO.parent / name).read_text()


def check_dsa(text):
    config, indexer = dsa.load(CONFIGS / "dsa.json")
    with open(RESULTS / "dsa" / "log.csv", newline="") as file:
        rows = {int(row["step"]): row for row in csv.DictReader(file)}
    assert [*rows] == [*range(0, config.steps + 1, config.eval_every)]
    assert {s for s, row in rows.items() if row["stage"] == "warm-up"} == {
        s for s in rows if s <= indexer.warm_up
    }
    stated = table(text)
    assert [int(step) for step in stated] == [0, indexer.warm_up, config.steps]
    for step, cells in stated.items():
        row = rows[int(step)]
        shares = [f"{100 * float(row[n]):.1f} %" for n in ("recall", "newest")]
        assert cells == [f"{float(row['validation']):.4f}", f"{float(row['kl']):.4f}", *shares]
    for number in (config.steps, indexer.warm_up, config.tokens_per_step, config.context):
        assert f"{number:,}" in text
    assert f"{indexer.picks} tokens" in text and f"{config.eval_bytes / 1e3:.0f} kB" in text
    # A run that stays dense is the same up to the last step before picks are read.
    dense = dsa.table(RESULTS / "dsa", "dense.csv")
    assert [row["step"] for row in dense] == [*rows]
    for row in dense:
        if row["step"] <= indexer.warm_up:
            assert f"{row['validation']:g}" == f"{float(rows[row['step']]['validation']):g}"
    assert f"needs {dense[-1]['validation']:.4f} bits per byte" in text
    # The indexers find more than the newest tokens have, and go on finding it.
    last = rows[config.steps]
    assert float(last["recall"]) > max(float(last["newest"]), float(rows[0]["recall"]))


CHECKS = {
    "Expected result": check_demo,
    "Comparison": check_comparison,
    "Long-range recall": check_recall,
    "From dense to NSA": check_conversion,
    "DeepSeek Sparse Attention": check_dsa,
    "Throughput": check_throughput,
}
STATED = [heading for heading in CHECKS if f"\n## {heading}\n" in README]


@pytest.mark.parametrize("heading", STATED)
def test_the_readme_says_what_the_logs_say(heading):
    CHECKS[heading](section(heading))


def test_experiments_that_must_be_there():
    assert STATED == [*CHECKS]


def test_links():
    links = re.findall(r"\]\(([^)#]+)\)", README)
    assert len(links) > 10
    for link in links:
        assert Path(DEMO, link).exists(), link


def test_every_config_is_named():
    """In the README or as the default of a program."""
    sources = README + "".join(path.read_text() for path in DEMO.glob("*.py"))
    for path in CONFIGS.glob("*.json"):
        assert path.name in sources or path.stem == "tiny", path.name


def test_stated_sizes():
    """The table of larger models has their sizes."""
    for name, row in table(section("Larger machines")).items():
        path = Path(DEMO, re.search(r"\((.*)\)", name)[1])
        config = configs.load(path)
        assert f"{parameters(config) / 1e6:.0f} M parameters" in row[0]
        assert f"{config.layers} layers of width {config.width}" in row[0]
        assert f"{config.tokens_per_step:,} tokens at context {config.context}" in row[1]
        assert config.dtype in row[1]


def parameters(config):
    """Counts the parameters of the embedding and of NSA, norms and SwiGLU of every layer."""
    c = config
    branches = 3 * c.kv_heads * c.head_dim
    attention = c.width * (2 * c.heads * c.head_dim + 2 * branches + 3 * c.heads)
    windows = 2 * c.compress_block_size * c.kv_heads * (1 + c.head_dim)
    layer = attention + windows + 3 * c.width * c.feed_forward + 2 * c.width
    return c.layers * layer + (c.vocabulary + 1) * c.width


def test_count_of_parameters():
    from model_zoo_demo.model import Model, parameter_count

    config = configs.load(CONFIGS / "tiny.json")
    assert parameter_count(Model(config)) == parameters(config)


def test_other_numbers_would_be_seen(tmp_path, monkeypatch):
    """The check of the recall fails for them, and for a run that was cut off."""
    text = (RESULTS / "recall" / "log.csv").read_text()
    assert text.count(",,,1.0\n") == 1
    (tmp_path / "recall").mkdir()
    (tmp_path / "recall" / "log.csv").write_text(text.replace(",,,1.0\n", ",,,0.9\n"))
    monkeypatch.setattr("tests.demo.test_results.RESULTS", tmp_path)
    with pytest.raises(AssertionError):
        check_recall(section("Long-range recall"))


def test_a_summary(tmp_path):
    """All evaluations, the first and the last step, the highest rate and no more than the rows."""
    rates = [0.1, 0.2, 0.7, *[0.3] * 97]
    log = [
        {"step": n, "loss": 5.0 - n / 50, "rate": rate, "tokens_per_second": 200.0}
        for n, rate in enumerate(rates)
    ]
    log += [{"step": n, "validation": 1.0 * n} for n in (0, 50, 100)]
    folders = {}
    for name in ("one", "two"):
        folders[name] = tmp_path / name
        folders[name].mkdir()
        written = runlog.RunLog(folders[name])
        for record in sorted(log, key=lambda r: r["step"]):
            written.write(**record)
        written.close()
    out = tmp_path / "log.csv"
    summary.main([str(out), str(tmp_path), "one", "two", "--config", str(CONFIGS / "tiny.json")])
    found = summary.read(out)
    assert [*found] == ["one", "two"] and found["one"] == found["two"]
    steps = [r for r in found["one"] if "loss" in r]
    assert {0, 2, 99} <= {r["step"] for r in steps} and max(r["rate"] for r in steps) == 0.7
    assert [r["validation"] for r in found["one"] if "validation" in r] == [0.0, 50.0, 100.0]
    tokens = configs.load(CONFIGS / "tiny.json").tokens_per_step
    assert steps[-1]["seconds"] == pytest.approx(100 * tokens / 200, abs=1e-3)
    few = summary.summarize({"one": runlog.read(folders["one"])}, tokens, rows=20)
    assert len(few) <= 20 and sum("validation" in r for r in few) == 3
