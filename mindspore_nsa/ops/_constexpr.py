"""Functions that the compiler of graphs evaluates itself."""

from mindspore.ops import PrimitiveWithInfer


class Constexpr(PrimitiveWithInfer):
    """A primitive that the compiler evaluates, like a function under mindspore.constexpr."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.set_const_prim(True)
        self.add_prim_attr("constexpr_prim", True)
