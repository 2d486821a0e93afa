"""Builds the kernels of NsaCompress and NsaCompressGrad into one library for the runner."""

from tests.twin.builds import ROOT, shared

from .runner import Runner

SOURCES = (
    "tests/ascendc/runner.cc",
    "ascendc/nsa_compress/op_host/nsa_compress_tiling.cpp",
    "ascendc/nsa_compress_grad/op_host/nsa_compress_grad_tiling.cpp",
    "infer/seq.cc",
)


def runner(name="nsa_compress", flags=()):
    """The kernels as they are, or as `flags` change what is included."""
    return Runner(shared(*(ROOT / source for source in SOURCES), name=name, flags=flags))
