"""What one of several workers computes, for test_workers.py: `msrun ... workers.py FOLDER TEXT`.

Writes the gradient of the first step and the weights after twenty steps of SGD; a training with
AdamW leaves its losses in a log.
"""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
if __name__ == "__main__":
    sys.path.append(str(ROOT))

import numpy as np  # noqa: E402

import model_zoo_demo  # noqa: E402, F401  (before MindSpore: it quietens it)
from model_zoo_demo import config as configs  # noqa: E402
from model_zoo_demo import data, train  # noqa: E402
from model_zoo_demo.model import Loss, Model  # noqa: E402
from model_zoo_demo.optimizer import MeanOverWorkers, Step  # noqa: E402

TINY = configs.load(train.CONFIGS / "tiny.json")
STEPS = 20


def compute(folder, text, rank, workers):
    """Every worker calls it; the first one writes."""
    folder = Path(folder)
    training, _ = data.load([text], TINY.context, TINY.rows, lambda _: None)
    config = configs.override(TINY, ["optimizer=sgd", "learning_rate=0.1", f"steps={STEPS}"])
    segments = TINY.rows // workers * (1 + training.most_starts(TINY.context))
    model = Model(config)
    step = Step(Loss(model), model.matrices(), config, workers)

    def batches(number):
        return train.draw_step(training, config, number, rank, workers, segments)

    _, gradients = step.gradient(*map(train.Tensor, batches(0)[0]))
    gradients = MeanOverWorkers(workers)(gradients)
    names = [weight.name for weight in step.weights]
    losses = [step(batches(number), number)[0] for number in range(STEPS)]
    if rank == 0:
        arrays = {f"gradient {n}": g.asnumpy() for n, g in zip(names, gradients)}
        arrays |= {f"weight {w.name}": w.asnumpy() for w in step.weights}
        np.savez(folder / "sgd.npz", losses=losses, **arrays)
    config = configs.override(TINY, [f"steps={STEPS}", "eval_every=1000"])
    train.train(config, folder / "run", [text], False, rank, workers, lambda _: None)


if __name__ == "__main__":
    compute(*sys.argv[1:], *train.set_up("graph"))
