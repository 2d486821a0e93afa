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

from mindspore_nsa.reference import lightning_indexer
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


class One(ms.nn.Cell):
    """The loss of that number."""

    def __init__(self, losses, number):
        super().__init__(auto_prefix=False)
        self.losses, self.number = losses, number

    def construct(self, *batch):
        return self.losses(*batch)[self.number]


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
    language, kl, total = (
        [x.asnumpy() for x in ms.grad(loss, None, weights)(*batch(sparse))]
        for loss in (One(losses, 0), One(losses, 1), dsa.Total(losses))
    )
    of_indexers = [".indexer." in weight.name for weight in weights]
    assert sum(of_indexers) == 3 * config.layers
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


def test_recall_is_the_mass_of_dense_attention():
    """By the definition: the softmax of all, summed up over the picks."""
    model = SparseModel(CONFIG, INDEXER)
    attention = model.layers[0].attention
    x = Tensor(np.random.default_rng(1).standard_normal((ENDS[-1], CONFIG.width), np.float32))
    place = places(np.array(ENDS))
    assert place.tolist() == [*range(30), *range(18)]
    newest = newest_tokens(place, INDEXER.picks)
    ours = [x.asnumpy() for x in attention.recall(x, ENDS, Tensor(newest))]
    (q, k, _), scores = attention.operands(x)
    q, k = q.asnumpy(), k.asnumpy()[:, 0]
    lists = {"actual_seq_lengths_query": ENDS, "actual_seq_lengths_key": ENDS}
    picks, _ = lightning_indexer(
        *(s.asnumpy() for s in scores), layout_query="TND", layout_key="TND",
        sparse_count=INDEXER.picks, **lists)  # fmt: skip
    for found, chosen in zip(ours, (picks, newest), strict=True):
        for row, at in enumerate(place):
            seen = k[row - at : row + 1]
            p = np.exp(attention.scale * q[row] @ seen.T)
            p = (p / p.sum(-1, keepdims=True)).mean(0)
            valid = chosen[row, 0][chosen[row, 0] >= 0]
            np.testing.assert_allclose(found[row], p[valid].sum(), rtol=1e-4)
            assert at >= INDEXER.picks or abs(found[row] - 1) < 1e-5


def config_file(path, indexer=None, **model):
    settings = {"attention": "dense", "steps": 4, "eval_every": 2, "eval_bytes": 256}
    tiny = json.loads((dsa.train.CONFIGS / "tiny.json").read_text())
    picks = {"heads": 2, "dim": 8, "picks": 8, "warm_up": 2}
    values = {"model": {**tiny, **settings, **model}, "indexer": {**picks, **(indexer or {})}}
    path.write_text(json.dumps(values))
    return str(path)


def test_program(tmp_path, capsys):
    given = config_file(tmp_path / "dsa.json", warmup=1)
    text = str(write_folder(tmp_path / "text"))
    out = tmp_path / "out"
    assert dsa.main([given, "--data", text, "--out", str(out), "--mode", "pynative"]) == 0
    assert str(out / "dsa.png") in capsys.readouterr().out
    assert (out / "dsa.png").read_bytes().startswith(b"\x89PNG")
    with open(out / "log.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [(int(r["step"]), r["stage"]) for r in rows] == [
        *((0, "warm-up"), (2, "warm-up"), (4, "sparse"))
    ]
    for row in rows:
        assert float(row["validation"]) > 0 and float(row["kl"]) > 0
        assert 0 < float(row["recall"]) <= 1 and 0 < float(row["newest"]) <= 1
    assert float(rows[-1]["validation"]) < float(rows[0]["validation"])


@pytest.mark.parametrize(
    "indexer, model, text",
    [
        ({"picks": 0}, {}, "picks must be an int above 0, got 0"),
        ({"dim": 7}, {}, "dim must be even, got 7"),
        ({"blocks": 3}, {}, "TypeError"),
        ({"warm_up": 4}, {}, "warm_up must be below steps"),
        ({}, {"attention": "nsa"}, "attention must be dense"),
        ({}, {"widht": 3}, "no setting is called 'widht'"),
    ],
)
def test_wrong_settings(tmp_path, indexer, model, text):
    with pytest.raises(InputError, match=text):
        dsa.load(config_file(tmp_path / "dsa.json", indexer, **model))
