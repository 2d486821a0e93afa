"""The empty Custom that calls are compared with costs what one of the package's library would."""

from pathlib import Path

from benchmarks import probe
from mindspore_nsa import _native


def test_its_library_is_as_far_as_the_native_one():
    """MindSpore takes the longer to open a library, the more folders its path has."""
    ours, native = probe.library()._name, _native.__file__
    assert len(Path(ours).parts) >= len(Path(native).parts) and len(ours) >= len(native)
