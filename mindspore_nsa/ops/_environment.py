"""What must hold before the operators can be used, said in words where it does not."""

import warnings

from .._native_library import native

MINDSPORE_TESTED = ((2, 7, 1), (2, 10))


def release(version):
    """The leading numbers of a version string."""
    numbers = []
    for part in version.split("."):
        if not part.isdigit():
            break
        numbers.append(int(part))
    return tuple(numbers)


def check_environment():
    """Raise an error where the operators cannot work, warn where they were never tried."""
    import numpy

    if release(numpy.__version__) >= (2,):
        raise ImportError(
            f"mindspore_nsa needs numpy<2, because MindSpore does, got numpy {numpy.__version__}: "
            "pip install 'numpy<2'"
        )
    try:
        import mindspore
    except ModuleNotFoundError as error:
        if error.name != "mindspore":
            raise
        raise ImportError(
            "the operators of mindspore_nsa need MindSpore: pip install 'mindspore>=2.7.1,<2.11'"
        ) from error
    lowest, highest = MINDSPORE_TESTED
    version = release(mindspore.__version__)
    if version < lowest or version[:2] > highest:
        warnings.warn(
            f"mindspore_nsa is made for MindSpore 2.7.1 to 2.10, got {mindspore.__version__}",
            stacklevel=4,
        )
    # Chooses the instruction set: MINDSPORE_NSA_ISA is checked here and not inside a first kernel,
    # whose error would come at some later synchronisation.
    native().isa()
