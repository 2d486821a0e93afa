"""The demo with DeepSeek Sparse Attention: which loss trains what, recall, and the program."""

import csv
import json
import subprocess
import sys
from pathlib import Path

import mindspore as ms
import numpy as np
import pytest
from mindspore import Tensor

from model_zoo_demo import dsa
from model_zoo_demo.dsa import Indexer, Losses, SparseModel, newest_tokens, places
from model_zoo_demo.errors import InputError

from .runs import ROOT, TINY, write_folder

CONFIG = dsa.configs.override(TINY, ["attention=dense"])
INDEXER = Indexer(heads=2, dim=8, picks=8, warm_up=2)
ENDS = (30, 48)  # two documents


def batch(sparse):
    tokens, targets = np.random.default_rng(0).integers(1, 256, (2, ENDS[-1])).astype(np.int32)
    return Tensor(tokens), Tensor(targets), ENDS, sparse


class Weighted(ms.nn.Cell):
    """The gradient of `language` times the one loss and `kl` times the other: one graph for all."""

    def __init__(self, losses, weights):
        super().__init__(auto_prefix=False)
        self.losses, self.weights = losses, weights
        self.gradient = ms.ops.GradOperation(get_by_list=True, sens_param=True)

    def construct(self, language, kl, tokens, targets, ends, sparse):
        given = tokens, targets, ends, sparse
        return self.gradient(self.losses, self.weights)(*given, (language, kl))


# Graphs take long to compile, and both layers would have the same ones.
ONE_LAYER = dsa.configs.override(CONFIG, ["layers=1"])
IN_GRAPHS = pytest.param(ms.GRAPH_MODE, ONE_LAYER, marks=pytest.mark.soak)
EAGER = (ms.PYNATIVE_MODE, CONFIG)


@pytest.mark.parametrize("mode, config", [EAGER, IN_GRAPHS], ids=["pynative", "graph"])
@pytest.mark.parametrize("sparse", [False, True], ids=dsa.STAGES)
def test_each_loss_trains_its_own_weights(mode, config, sparse):
    """The KL loss trains the indexers, the language model's all other weights, their sum both."""
    ms.set_context(mode=mode)
    losses = Losses(SparseModel(config, INDEXER))
    weights = ms.ParameterTuple(losses.trainable_params())
    gradient = Weighted(losses, weights)
    language, kl, total = (
        [x.asnumpy() for x in gradient(Tensor(a), Tensor(b), *batch(sparse))]
        for a, b in np.array([[1, 0], [0, 1], [1, 1]], np.float32)
    )
    of_indexers = [".indexer." in weight.name for weight in weights]
    assert sum(of_indexers) == 5 * config.layers
    for own, of_language, of_kl, of_both in zip(of_indexers, language, kl, total, strict=True):
        trained, other = (of_kl, of_language) if own else (of_language, of_kl)
        assert trained.any() and not other.any()
        np.testing.assert_array_equal(of_both, trained)


def test_each_loss_in_graphs():
    """In a process of their own: in one that has compiled the graphs of other tests, MindSpore now
    and then adds gradients of different parameters ("For 'AddN', input shape must be same")."""
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-m", "soak"]
    done = subprocess.run(
        [*command, "-k", "each_loss_trains", str(Path(__file__).relative_to(ROOT))],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0 and "2 passed" in done.stdout, done.stdout[-3000:] + done.stderr


def test_recall_is_of_the_picks_and_of_the_newest_tokens():
    """Every layer's, of what it gets in that stage; queries that see no more than is picked: 1."""
    model = SparseModel(CONFIG, INDEXER)
    tokens, _, ends, _ = batch(True)
    place = places(np.array(ends))
    assert place.tolist() == [*range(30), *range(18)]
    newest = newest_tokens(place, INDEXER.picks)
    assert newest[2].tolist() == [2, 1, 0, *[-1] * 5] and newest[-1].tolist() == [*range(17, 9, -1)]
    layers = dsa.Recall(model)(tokens, ends, True, Tensor(newest))
    x = ms.ops.gather(model.embedding, tokens, 0)
    for layer, found in zip(model.layers, layers, strict=True):
        normed = layer.attention_norm(x)
        _, picks = layer.attention(normed, ends, return_indices=True)
        x, _ = layer(x, ends, True)
        for recall, read in zip(found, (picks, Tensor(newest)), strict=True):
            want = layer.attention(normed, ends, topk_indices=read, stage="recall")[1].asnumpy()
            np.testing.assert_array_equal(recall.asnumpy(), want)
            assert np.abs(want[place < INDEXER.picks] - 1).max() < 1e-5
            assert (want[place >= INDEXER.picks] < 1).all()


def config_file(path, indexer=None, **model):
    settings = {"attention": "dense", "steps": 4, "eval_every": 2, "eval_bytes": 256}
    tiny = json.loads((dsa.train.CONFIGS / "tiny.json").read_text())
    picks = {"heads": 2, "dim": 8, "picks": 8, "warm_up": 2}
    values = {"model": {**tiny, **settings, **model}, "indexer": {**picks, **(indexer or {})}}
    path.write_text(json.dumps(values))
    return str(path)


def test_program(tmp_path, capsys):
    few = {"layers": 1, "steps": 2, "eval_every": 1, "warmup": 1}
    given = config_file(tmp_path / "dsa.json", {"warm_up": 1}, **few)
    text = str(write_folder(tmp_path / "text"))
    out = tmp_path / "out"
    assert dsa.main([given, "--data", text, "--out", str(out), "--mode", "pynative"]) == 0
    assert str(out / "dsa.png") in capsys.readouterr().out
    assert (out / "dsa.png").read_bytes().startswith(b"\x89PNG")
    with open(out / "log.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [(int(r["step"]), r["stage"]) for r in rows] == [
        *((0, "warm-up"), (1, "warm-up"), (2, "sparse"))
    ]
    for row in rows:
        assert float(row["validation"]) > 0 and float(row["kl"]) > 0
        assert 0 < float(row["recall"]) <= 1 and 0 < float(row["newest"]) <= 1
    assert float(rows[-1]["validation"]) < float(rows[0]["validation"])
    # Drawn beside it: a run that stays dense, which differs from the first sparse step on.
    dense = tmp_path / "dense"
    arguments = [given, "--data", text, "--mode", "pynative", "--out", str(dense), "--dense"]
    assert dsa.main([*arguments, "--beside", str(out)]) == 0
    log = dsa.table(dense)
    assert [row["stage"] for row in log] == ["warm-up"] * 3
    same = [row["validation"] == old["validation"] for row, old in zip(log, dsa.table(out))]
    assert same == [True, True, False]
    assert (dense / "dsa.png").read_bytes() != (out / "dsa.png").read_bytes()
    assert "--beside" in dsa.main([given, "--out", str(out), "--beside", str(tmp_path / "no")])


@pytest.mark.parametrize(
    "indexer, model, text",
    [
        ({"picks": 0}, {}, "picks must be an int above 0, got 0"),
        ({"dim": 7}, {}, "dim must be even, got 7"),
        ({"blocks": 3}, {}, "TypeError"),
        ({"warm_up": 4}, {}, "warm_up must be below steps"),
        ({}, {"attention": "nsa"}, "attention must be dense"),
        ({"dim": 2}, {}, "index_head_dim"),
        ({}, {"widht": 3}, "no setting is called 'widht'"),
    ],
)
def test_wrong_settings(tmp_path, indexer, model, text):
    with pytest.raises(InputError, match=text):
        SparseModel(*dsa.load(config_file(tmp_path / "dsa.json", indexer, **model)))
