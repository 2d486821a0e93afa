"""A change of one thing in one file, and how it reads."""

from dataclasses import dataclass
from pathlib import Path


def read(path):
    """The text of a file, one character a byte: offsets of both parsers count bytes."""
    return Path(path).read_bytes().decode("latin-1")


@dataclass(frozen=True)
class Mutant:
    """`text` between two offsets of a file that lies below the root of the repository."""

    file: str
    kind: str
    start: int
    end: int
    text: str

    def applied(self, source):
        """The source with the change in it."""
        return source[: self.start] + self.text + source[self.end :]

    def lines(self, source):
        """The lines that it touches, before and after, with single spaces."""
        begin = source.rfind("\n", 0, self.start) + 1
        last = source.find("\n", self.end)
        end = len(source) if last < 0 else last
        after = source[begin : self.start] + self.text + source[self.end : end]
        return " ".join(source[begin:end].split()), " ".join(after.split())

    def place(self, source):
        """file:line."""
        return f"{self.file}:{source.count(chr(10), 0, self.start) + 1}"


OPERATORS = {
    **{"<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "=="},
    **{"+": "-", "-": "+", "+=": "-=", "-=": "+="},
    **{"&&": "||", "||": "&&", "and": "or", "or": "and"},
    **{"is": "is not", "is not": "is", "in": "not in", "not in": "in"},
}


def kind_of(operator):
    """The kind of mutant that another operator makes."""
    if operator in ("+", "-", "+=", "-="):
        return "sum"
    return "and, or" if operator in ("&&", "||", "and", "or") else "comparison"


def other_extreme(name):
    """The name of the function that takes the least where `name` takes the most, or the reverse."""
    for one, other in (("max", "min"), ("Max", "Min")):
        for a, b in ((one, other), (other, one)):
            for ending in ("", "64", "s", "imum"):
                if name.endswith(a + ending):
                    return name[: -len(a + ending)] + b + ending
    return None
