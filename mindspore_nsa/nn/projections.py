"""The linear maps around a layer's branches: from its rows to them, and from them to its output."""

from typing import Any, NamedTuple

import mindspore
from mindspore import Tensor, ops

from ..ops._layer import nsa_projection, projects
from .gates import Gates
from .parts import Asked, LayerPart, raise_refusal, refusal, takes_dtype, untouched
from .precision import FOREIGN, OWN, WITH_DTYPE, Projection, given, map_kind
from .rotary import Rotate


class Kinds(NamedTuple):
    """How the Cells of a layer are called now; a constant where a graph is compiled.

    Attributes:
        fused: Whether one operator may compute all linear maps.
        query, key_value, output, gates: How each is called, as `map_kind` says it.
        own_rotation: Whether the rotation is the layer's own.
    """

    fused: bool
    query: int
    key_value: int
    output: int
    gates: int
    own_rotation: bool


class Projections(LayerPart):
    """Queries, keys, values and logits of the gates from rows, and the output from attention.

    Args:
        layer (AttentionLayer): The layer.
        gated (bool): Whether it has gates.
    """

    def __init__(self, layer: Any, gated: bool) -> None:
        super().__init__(layer)
        self.gated = gated

    @Asked
    def kinds(self) -> Kinds:
        """How the layer's Cells are called now."""
        layer = self.layer
        cells, mark = layer._cells, layer.amp_dtype
        query = map_kind(cells["query"], mark)
        key_value, output = map_kind(cells["key_value"], mark), map_kind(cells["output"], mark)
        gates, own_gates = OWN, True
        if self.gated:
            gates, own_gates = self._gates(cells["gates"], mark)
        fused = own_gates and (query, key_value, output) == (OWN, OWN, OWN)
        own_rotation = untouched(cells["rotate"], Rotate)
        return Kinds(fused, query, key_value, output, gates, own_rotation)

    def _gates(self, gates: Any, mark: Any) -> tuple[int, bool]:
        """How the gates are called, and whether they and their linear map are the layer's own."""
        if untouched(gates, Gates):
            return OWN, map_kind(gates._cells["linear"], mark) == OWN
        return WITH_DTYPE if takes_dtype(gates, 4) else FOREIGN, False

    @Asked
    def unsummed(self) -> str:
        """Return the error of an output map that does not sum over a tensor group, or ""."""
        layer = self.layer
        output = layer._cells["output"]
        if layer.enter is None or getattr(output, "total", None) is not None:
            return ""
        return refusal(f"{layer.name} with a tensor_group", "output", output, Projection)

    def check(self) -> None:
        """Raise the error of an output map that does not sum over a tensor group."""
        if self.unsummed != "":
            raise_refusal(self.unsummed)

    def multiply_narrow(self, x: Tensor, dtype: Any, kinds: Any) -> bool:
        """Whether products take x as it is, and what they multiply in the dtype of operands."""
        return kinds.fused and projects(x, dtype)

    def project(self, x: Tensor, dtype: Any, kinds: Any) -> tuple[Any, ...]:
        """Queries [T, N1 * D], keys and values in one matrix, logits of the gates; float32.

        Logits are None without gates, and where these are called as a Cell.
        """
        layer = self.layer
        y = None
        if kinds.fused:
            weights = layer.query.weight, layer.key_value.weight
            gates = None
            if self.gated:
                gates = layer.gates.linear.weight
            y = nsa_projection(x, *weights, gates, dtype, mindspore.float32)
        if y is None:
            return self._one_by_one(x, dtype, kinds)
        logits = None
        if self.gated:
            logits = layer.gates.linear.biased(y[2])
        return layer.query.biased(y[0]), layer.key_value.biased(y[1]), logits

    def _one_by_one(self, x: Tensor, dtype: Any, kinds: Any) -> tuple[Any, ...]:
        """Compute the results of `project` by a product for each linear map."""
        layer = self.layer
        if kinds.query == OWN:
            query = layer.query.product(x, dtype)
        else:
            query = layer.query(*given(kinds.query, x, dtype))
        if kinds.key_value == OWN:
            key_value = layer.key_value.product(x, dtype)
        else:
            key_value = layer.key_value(*given(kinds.key_value, x, dtype))
        logits = None
        if self.gated:
            if kinds.gates == OWN:
                logits = layer.gates.logits(x, dtype)
        full = mindspore.float32
        return ops.cast(query, full), ops.cast(key_value, full), logits

    def output(self, attended: Any, x: Tensor, dtype: Any, narrow: bool, kinds: Any) -> Any:
        """The layer's output for x, from attention [T, N1, Dv]; `narrow`: see `multiply_narrow`."""
        layer = self.layer
        if narrow:
            if layer.dropout is None and not layer.has_bias and layer.enter is None:
                batch = x.shape[0] if len(x.shape) == 3 else 0
                return layer.output.product(attended, dtype, dtype, batch)
            out = layer.output.product(attended, dtype)
        else:
            rows = ops.cast(attended, mindspore.float32)
            rows = ops.reshape(rows, (-1, layer.heads * layer.value_dim))
            if kinds.output == OWN:
                out = layer.output.product(rows, dtype)
            else:
                out = layer.output(*given(kinds.output, rows, dtype))
        if layer.dropout is not None:
            out = layer.dropout(ops.cast(out, mindspore.float32))
        return ops.cast(ops.reshape(out, ops.shape(x)), dtype)
