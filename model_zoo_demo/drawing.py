"""matplotlib, which draws the pictures of the programs: asked for first, loaded when it draws."""

from .checkpoint import write_atomically
from .errors import InputError


def require():
    """Fail before the training if its picture could not be drawn after it."""
    try:
        import matplotlib
    except ImportError as error:
        raise InputError(
            f"matplotlib draws the pictures, and cannot be imported ({error}): "
            "pip install '.[demo]' in the clone"
        ) from None
    # No window: a picture is a file.
    matplotlib.use("Agg")


def pyplot():
    """The module of that name."""
    require()
    from matplotlib import pyplot

    return pyplot


def save(figure, path, dpi=120):
    """Write a figure as a PNG, all of it or nothing, and forget it."""
    write_atomically(path, lambda to: figure.savefig(to, format="png", dpi=dpi))
    pyplot().close(figure)
