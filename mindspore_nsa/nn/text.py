"""The call of a layer as packed rows, and its output in the form of the input."""

from typing import Any

from mindspore import Tensor

from .packing import pack, planned
from .padding import PADDING_RULE, check_padding, real_documents, without_padding
from .parts import LayerPart
from .precision import rounded


class WholeText(LayerPart):
    """The text of a layer without a context: packed documents, or rows with padding."""

    def given(self, x: Tensor, actual_seq_len: Any, cache: Any, padding: Any) -> tuple[Any, ...]:
        """(x, prefix sums, None) without padding, or the error of a wrong call.

        Where x is padded, both are those of packed documents.
        """
        layer = self.layer
        planned(layer.name, x, actual_seq_len, layer.hidden)
        if padding is None:
            return x, actual_seq_len, None
        check_padding(layer.name, x, cache, padding)
        rows, ends = real_documents(x, padding, layer.hidden)
        return rows, ends, None

    def rows(
        self, x: Tensor, actual_seq_len: Any, plan: Any, padding: Any, dtype: Any, narrow: bool
    ) -> tuple[Any, ...]:
        """(rows [T, hidden], prefix sums, positions); `narrow`: products take rows as they are."""
        layer = self.layer
        instead = None
        if padding is not None:
            instead = PADDING_RULE
        rows, ends, positions = pack(layer.name, x, actual_seq_len, layer.hidden, narrow, instead)
        # Otherwise it is the dtype of x, whose values the rows hold.
        if layer.amp_dtype is not None and not narrow:
            rows = rounded(rows, dtype)
        if layer.enter is not None:
            rows = layer.enter(rows)
        return rows, ends, positions

    def returned(self, attended: Any, ends: Any) -> Any:
        """Attention in the order of the rows of x."""
        return attended

    def padded(self, out: Any, padding: Any) -> Any:
        """The output in the form of a padded x, 0 where its tokens are padding."""
        if padding is None:
            return out
        return without_padding(out, padding, self.layer.hidden)
