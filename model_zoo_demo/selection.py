"""The blocks that a trained model selects: `python -m model_zoo_demo.selection FOLDER`.

One document, one panel for every layer and key head: a row for each query, a column for each block.
"""

import argparse
import sys
from pathlib import Path

import numpy as np
from mindspore import Tensor, nn, ops

from . import checkpoint, data, drawing
from .errors import InputError
from .machine import add_mode, set_up
from .model import Model

NAME = "selection.png"
EMPTY, ALWAYS, CHOSEN, FUTURE = range(4)


class Selection(nn.Cell):
    """Tokens to the blocks that every layer selects."""

    def __init__(self, model):
        super().__init__(auto_prefix=False)
        self.model = model

    def construct(self, tokens, ends):
        """int32 tokens [T] and the prefix sums of segments to a tuple of [T, kv_heads, count]."""
        x = ops.gather(self.model.embedding, tokens, 0)
        found = ()
        for layer in self.model.layers:
            normed = layer.attention_norm(x).astype(layer.dtype)
            found += (layer.attention.selected_blocks(normed, ends),)
            x = layer(x, ends)
        return found


def document(corpus, length):
    """Tokens of the first document that fills the length, or of the longest."""
    ends = [*corpus.starts[1:], len(corpus)]
    sizes = np.asarray(ends) - corpus.starts
    number = int(np.argmax(np.minimum(sizes, length)))
    start = corpus.starts[number]
    return corpus.tokens[start : start + min(length, sizes[number])].astype(np.int32)


def picture(blocks, config):
    """What becomes of each block [queries, blocks]: a number of EMPTY, ALWAYS, CHOSEN, FUTURE.

    `blocks` is [queries, count] of one head.
    """
    own = np.arange(len(blocks)) // config.select_block_size
    column = np.arange(own[-1] + 1)
    found = np.where(column > own[:, None], FUTURE, EMPTY)
    for row, chosen in zip(found, blocks):
        row[chosen[chosen >= 0]] = CHOSEN
    always = (column < config.init_blocks) | (column > own[:, None] - config.local_blocks)
    found[always & (found == CHOSEN)] = ALWAYS
    return found


def draw(model, config, corpus, path):
    """Draw what a model selects in a document of a corpus."""
    pyplot = drawing.pyplot()
    from matplotlib import colors, patches

    tokens = document(corpus, config.context)
    # Always the same length, so that what stands after a short document is in its future.
    padded = np.zeros(config.context, np.int32)
    padded[: len(tokens)] = tokens
    layers = Selection(model)(Tensor(padded), (config.context,))
    panels = [
        (f"layer {i + 1}" + f", key head {head + 1}" * (config.kv_heads > 1), blocks[:, head])
        for i, blocks in enumerate(layer.asnumpy()[: len(tokens)] for layer in layers)
        for head in range(config.kv_heads)
    ]
    columns = min(len(panels), 4)
    figure, axes = pyplot.subplots(
        -(-len(panels) // columns),
        columns,
        figsize=(3.2 * columns, 3.6 * -(-len(panels) // columns) + 0.7),
        sharex=True,
        sharey=True,
        squeeze=False,
        layout="constrained",
    )
    shades = ("#ffffff", "#9fb3c8", "#c8553d", "#eef1f4")
    names = ("not read", "always read", "chosen by score", "in the future")
    for (title, blocks), axis in zip(panels, axes.flat):
        shown = picture(blocks, config)
        extent = (0, shown.shape[1], len(tokens), 0)
        axis.imshow(
            shown,
            cmap=colors.ListedColormap(shades),
            norm=colors.NoNorm(),
            interpolation="nearest",
            aspect="auto",
            extent=extent,
        )
        axis.set_title(title, fontsize=10)
    for axis in axes.flat[len(panels) :]:
        axis.axis("off")
    for axis in axes[-1]:
        axis.set_xlabel(f"block of {config.select_block_size} bytes")
    for axis in axes[:, 0]:
        axis.set_ylabel("byte that asks")
    figure.legend(
        handles=[patches.Patch(fc=c, ec="gray", label=n) for c, n in zip(shades, names)],
        loc="outside upper center",
        ncols=4,
        frameon=False,
    )
    drawing.save(figure, path)


def main(arguments=None):
    """The program; returns its exit code."""
    parser = argparse.ArgumentParser(prog="python -m model_zoo_demo.selection", description=__doc__)
    parser.add_argument("folder", help="where train wrote its checkpoint")
    parser.add_argument(
        "--data", nargs="+", metavar="PATH", help="text to take a document of; default: as train"
    )
    parser.add_argument("--out", type=Path, help=f"the picture; default: {NAME} in the folder")
    add_mode(parser)
    args = parser.parse_args(arguments)
    try:
        arrays, config, _ = checkpoint.load(args.folder)
        if config.attention != "nsa":
            raise InputError(f"{args.folder} holds a model with {config.attention} attention")
        data.check_vocabulary(config, args.folder)
        drawing.require()
        set_up(args.mode, config.device)
        model = Model(config)
        checkpoint.restore(model.trainable_params(), arrays, args.folder)
        _, validation = data.load(args.data, config.context, config.rows)
        path = args.out or Path(args.folder, NAME)
        draw(model, config, validation, path)
        print(path)
        return 0
    except InputError as error:
        return f"selection: {error}"


if __name__ == "__main__":
    sys.exit(main())
