"""The blocks that a trained model selects: `python -m model_zoo_demo.selection FOLDER`.

One document, one panel for every layer and key head: a row for each query, a column for each block.
A second picture shows how much of dense attention stands on them.
"""

import argparse
import sys
from pathlib import Path

import numpy as np
from mindspore import Tensor, nn, ops

from mindspore_nsa.nn import plot_selected_blocks, plot_selection_quality

from . import checkpoint, data, drawing
from .errors import InputError
from .machine import add_mode, set_up
from .model import Model

NAME, QUALITY = "selection.png", "selection_quality.png"


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


class Inputs(nn.Cell):
    """Tokens to what the attention of every layer gets."""

    def __init__(self, model):
        super().__init__(auto_prefix=False)
        self.model = model

    def construct(self, tokens, ends):
        """int32 tokens [T] and the prefix sums of segments to a tuple of [T, width]."""
        x = ops.gather(self.model.embedding, tokens, 0)
        found = ()
        for layer in self.model.layers:
            found += (layer.attention_norm(x).astype(layer.dtype),)
            x = layer(x, ends)
        return found


def document(corpus, length):
    """Tokens of the first document that fills the length, or of the longest."""
    ends = [*corpus.starts[1:], len(corpus)]
    sizes = np.asarray(ends) - corpus.starts
    number = int(np.argmax(np.minimum(sizes, length)))
    start = corpus.starts[number]
    return corpus.tokens[start : start + min(length, sizes[number])].astype(np.int32)


def padded(corpus, config):
    """A document of a corpus, filled up to the context, and its length.

    Always the same length, so that what stands after a short document is in its future.
    """
    tokens = document(corpus, config.context)
    found = np.zeros(config.context, np.int32)
    found[: len(tokens)] = tokens
    return Tensor(found), len(tokens)


def draw(model, config, corpus, path):
    """Draw what a model selects in a document of a corpus."""
    drawing.require()
    tokens, length = padded(corpus, config)
    found = Selection(model)(tokens, (config.context,))
    layers = {f"layer {i + 1}": blocks.asnumpy()[:length] for i, blocks in enumerate(found)}
    drawing.save(plot_selected_blocks(layers, config, unit="byte"), path)


def draw_quality(model, config, corpus, path):
    """Draw how good the selection in the same document is; the `SelectionQuality` of layers."""
    drawing.require()
    tokens, length = padded(corpus, config)
    inputs = Inputs(model)(tokens, (config.context,))
    layers = {
        f"layer {i + 1}": layer.attention.selection_quality(x[:length], (length,))
        for i, (layer, x) in enumerate(zip(model.layers, inputs))
    }
    drawing.save(plot_selection_quality(layers, unit="byte"), path)
    return layers


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
        path = path.with_name(QUALITY)
        for title, layer in draw_quality(model, config, validation, path).items():
            means = ", ".join(f"{name} {mass:.1%}" for name, mass in layer.mean().items())
            print(f"{title}: dense attention on blocks: {means}")
        print(path)
        return 0
    except InputError as error:
        return f"selection: {error}"


if __name__ == "__main__":
    sys.exit(main())
