"""Plots of what layers select, by matplotlib, which is asked for when something is drawn."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from ..ops._plan import fail_type
from .config import NSAConfig
from .selection_quality import SelectionQuality

# States of a block.
EMPTY, ALWAYS, CHOSEN, FUTURE = range(4)
_COLORS = ("#ffffff", "#9fb3c8", "#c8553d", "#eef1f4")
_NAMES = ("not read", "always read", "chosen by score", "in the future")
_MASSES = {"selected": "selected", "newest": "as many newest", "best": "as many best"}


def _matplotlib(function: str) -> tuple[Any, ...]:
    try:
        from matplotlib import colors, figure, patches
    except ImportError as error:
        raise ImportError(f"{function} needs matplotlib: pip install matplotlib") from error
    return figure, colors, patches


def block_states(blocks: Any, config: NSAConfig) -> Any:
    """Return the state of every block for every query of a document, ints [T, blocks].

    `blocks` are the numbers [T, count] of one key head.
    """
    own = np.arange(len(blocks)) // config.select_block_size
    column = np.arange(own[-1] + 1)
    found = np.where(column > own[:, None], FUTURE, EMPTY)
    for row, chosen in zip(found, blocks):
        row[chosen[chosen >= 0]] = CHOSEN
    always = (column < config.init_blocks) | (column > own[:, None] - config.local_blocks)
    found[always & (found == CHOSEN)] = ALWAYS
    return found


def _panels(figure: Any, count: int) -> tuple[Any, ...]:
    """Axes of so many panels, at most four in a row, and the figure around them."""
    columns = min(count, 4)
    rows = -(-count // columns)
    made = figure.Figure(figsize=(3.2 * columns, 3.6 * rows + 0.7), layout="constrained")
    axes = made.subplots(rows, columns, sharex=True, sharey=True, squeeze=False)
    for axis in axes.flat[count:]:
        axis.axis("off")
    return made, axes


def _of_heads(titles_and_heads: Any) -> Iterator[Any]:
    """A panel's title for every key head of every layer."""
    for title, heads in titles_and_heads:
        for head in range(heads):
            yield (
                title,
                head,
                ", ".join(part for part in (title, f"key head {head + 1}" * (heads > 1)) if part),
            )


def _layers(function: str, argument: str, given: dict[str, Any], kind: Any, expected: str) -> Any:
    """Layers by their titles, of which a single one needs none."""
    layers = given if isinstance(given, dict) else {"": given}
    for layer in layers.values():
        if not isinstance(layer, kind):
            fail_type(function, argument, f"{expected}, or a dict of them by title", layer)
    if not layers:
        raise ValueError(f"{function}: {argument} must hold at least one layer, got none")
    return layers


def plot_selected_blocks(
    blocks: Any, config: NSAConfig, path: str | None = None, unit: str = "token"
) -> Any:
    """Plot which blocks the queries of a document select: a panel for each layer and key head.

    Args:
        blocks (Union[numpy.ndarray, dict[str, numpy.ndarray]]): What `selected_blocks` of a layer
            gave for one document, int [T, num_kv_heads, count], or such arrays by title.
        config (NSAConfig): That of the layers.
        path (str, optional): A file to save the figure in. Default: ``None``.
        unit (str, optional): Name of a token in the labels. Default: ``"token"``.

    Returns:
        matplotlib.figure.Figure.

    Raises:
        TypeError: If an argument has the wrong type.
        ImportError: If matplotlib is missing.

    Examples:
        >>> import numpy as np
        >>> from mindspore_nsa.nn import NSAConfig, plot_selected_blocks
        >>> config = NSAConfig(hidden_size=64, num_heads=4, num_kv_heads=1, head_dim=16)
        >>> figure = plot_selected_blocks(np.zeros((40, 1, 16), np.int32), config)
        >>> print(len(figure.axes))
        1
    """
    function = "plot_selected_blocks"
    layers = _layers(function, "blocks", blocks, np.ndarray, "an array")
    if not hasattr(config, "select_block_size"):
        fail_type(function, "config", f"an {NSAConfig.__name__}", config)
    figure, colors, patches = _matplotlib(function)
    panels = list(_of_heads((title, layer.shape[1]) for title, layer in layers.items()))
    made, axes = _panels(figure, len(panels))
    for (title, head, text), axis in zip(panels, axes.flat):
        shown = block_states(layers[title][:, head], config)
        axis.imshow(
            shown,
            cmap=colors.ListedColormap(_COLORS),
            norm=colors.NoNorm(),
            interpolation="nearest",
            aspect="auto",
            extent=(0, shown.shape[1], len(shown), 0),
        )
        axis.set_title(text, fontsize=10)
    for axis in axes[-1]:
        axis.set_xlabel(f"block of {config.select_block_size} {unit}s")
    for axis in axes[:, 0]:
        axis.set_ylabel(f"{unit} that asks")
    handles = [patches.Patch(fc=c, ec="gray", label=n) for c, n in zip(_COLORS, _NAMES)]
    made.legend(handles=handles, loc="outside upper center", ncols=4, frameon=False)
    if path is not None:
        made.savefig(path)
    return made


def plot_selection_quality(quality: Any, path: str | None = None, unit: str = "token") -> Any:
    """Plot the masses over the positions of the queries: a panel for each layer and key head.

    Queries that do not choose, whose masses are 1, are left out; others are averaged over some
    hundredth of all positions.

    Args:
        quality (Union[SelectionQuality, dict[str, SelectionQuality]]): What `selection_quality` of
            a layer gave, or several by title.
        path (str, optional): A file to save the figure in. Default: ``None``.
        unit (str, optional): Name of a token in the labels. Default: ``"token"``.

    Returns:
        matplotlib.figure.Figure.

    Raises:
        TypeError: If an argument has the wrong type.
        ImportError: If matplotlib is missing.

    Examples:
        >>> import numpy as np
        >>> from mindspore_nsa.nn import SelectionQuality, plot_selection_quality
        >>> half, place = np.full((9, 1), 0.5, np.float32), np.arange(9)
        >>> quality = SelectionQuality(half, half, half, place, place > 3)
        >>> print(len(plot_selection_quality({"a layer": quality}).axes))
        1
    """
    function = "plot_selection_quality"
    layers = _layers(function, "quality", quality, SelectionQuality, "a SelectionQuality")
    figure, _, _ = _matplotlib(function)
    panels = list(_of_heads((title, layer.selected.shape[1]) for title, layer in layers.items()))
    made, axes = _panels(figure, len(panels))
    for (title, head, text), axis in zip(panels, axes.flat):
        for name, label in _MASSES.items():
            axis.plot(*_averaged(layers[title], name, head), label=label)
        axis.set_title(text, fontsize=10)
        axis.set_ylim(0, 1.02)
        axis.grid(alpha=0.3)
    for axis in axes[-1]:
        axis.set_xlabel(f"{unit} that asks")
    for axis in axes[:, 0]:
        axis.set_ylabel("part of dense attention")
    handles, labels = axes[0, 0].get_legend_handles_labels()
    made.legend(handles, labels, loc="outside upper center", ncols=3, frameon=False)
    if path is not None:
        made.savefig(path)
    return made


def _averaged(layer: Any, name: str, head: Any) -> tuple[Any, ...]:
    """(positions, masses): means over neighbouring positions of the queries that choose."""
    positions = layer.positions[layer.choosing]
    masses = getattr(layer, name)[layer.choosing, head]
    width = max(1, int(positions.max(initial=0)) // 100)
    places, inverse, counts = np.unique(positions // width, return_inverse=True, return_counts=True)
    sums = np.bincount(inverse, masses, len(places))
    return (places + 0.5) * width, sums / np.maximum(counts, 1)
