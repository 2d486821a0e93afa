"""The examples in the documentation of the layers, and every argument's description."""

import inspect
import re

import pytest
from mindspore import nn

from mindspore_nsa import models, ops
from tests.ops.test_docstrings import run_examples

EXPORTED = [name for name in models.__all__ if name != "LayerCache"]
CELLS = [name for name in EXPORTED if inspect.isclass(getattr(models, name))]


@pytest.mark.parametrize("name", EXPORTED)
def test_example(name):
    run_examples(name, getattr(models, name).__doc__)


def test_example_of_the_composition():
    run_examples("sparse_flash_mla", ops.sparse_flash_mla.__doc__)


@pytest.mark.parametrize("name", CELLS)
def test_inputs_and_arguments_are_described(name):
    cell = getattr(models, name)
    assert issubclass(cell, nn.Cell)
    for function, form in ((cell.__init__, r"\n        {} \("), (cell.construct, r"\*\*{}\*\*")):
        for parameter in list(inspect.signature(function).parameters)[1:]:
            assert re.search(form.format(parameter), cell.__doc__), parameter
