"""The examples in the documentation of the layers, and every argument's description."""

import inspect
import re

import pytest
from mindspore import nn

from mindspore_nsa import models, ops
from tests.ops.test_docstrings import run_examples

EXPORTED = [name for name in models.__all__ if name != "LayerCache"]
COMPOSITIONS = (
    "compressor",
    "lightning_indexer_v2",
    "sparse_flash_mla",
    "sparse_lightning_indexer_kl_loss_grad",
)
CELLS = [name for name in EXPORTED if inspect.isclass(getattr(models, name))]


@pytest.mark.parametrize("name", EXPORTED)
def test_example(name):
    run_examples(name, getattr(models, name).__doc__)


@pytest.mark.parametrize("name", COMPOSITIONS)
def test_compositions(name):
    function = getattr(ops, name)
    run_examples(name, function.__doc__)
    for parameter in inspect.signature(function).parameters:
        assert f"\n        {parameter} (" in function.__doc__, parameter


@pytest.mark.parametrize("name", CELLS)
def test_inputs_and_arguments_are_described(name):
    cell = getattr(models, name)
    assert issubclass(cell, nn.Cell)
    for function, form in ((cell.__init__, r"\n        {} \("), (cell.construct, r"\*\*{}\*\*")):
        for parameter in list(inspect.signature(function).parameters)[1:]:
            assert re.search(form.format(parameter), cell.__doc__), parameter
