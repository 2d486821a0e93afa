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
    from model_zoo_demo import train

    from .runs import tiny, write_folder

    train.set_up("graph")
    with tempfile.TemporaryDirectory() as folder:
        text = write_folder(Path(folder, "text"))
        return tiny(Path(folder, "run"), text, "steps=10", "eval_every=100")


if __name__ == "__main__":
    text = json.dumps(losses(), indent=1)
    print(text)
    if sys.argv[1:] == ["--store"]:
        STORED.write_text(text + "\n")
