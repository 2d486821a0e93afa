"""The first losses of the tiny model, on a text that is the same everywhere.

`python -m tests.demo.first_losses` prints them; with `--store` it keeps them for the test.
"""

import json
import sys
import tempfile
from pathlib import Path

import model_zoo_demo  # noqa: F401  (puts the source tree last on the path)

STORED = Path(__file__).with_name("first_losses.json")


def losses():
    from model_zoo_demo import data, train
    from model_zoo_demo.model import Loss, Model
    from model_zoo_demo.optimizer import Step
    from model_zoo_demo.worker import Worker

    from .runs import TINY, write_folder

    train.set_up("graph")
    with tempfile.TemporaryDirectory() as folder:
        training, _ = data.load([write_folder(Path(folder, "text"))], TINY.context, TINY.rows)
    model = Model(TINY)
    step = Step(Loss(model), model.matrices(), TINY)
    segments = TINY.rows * (1 + training.most_starts(TINY.context))
    worker = Worker(TINY)
    return [
        step(train.draw_step(training, TINY, number, worker, segments), number)[0]
        for number in range(10)
    ]


if __name__ == "__main__":
    text = json.dumps(losses(), indent=1)
    print(text)
    if sys.argv[1:] == ["--store"]:
        STORED.write_text(text + "\n")
