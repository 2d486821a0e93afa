"""Places to change in a Python file, from its syntax tree."""

import ast

from .mutant import OPERATORS, Mutant, kind_of, other_extreme, read

_DROPPED = (ast.AugAssign, ast.Raise, ast.Delete, ast.Continue, ast.Break)


class _Finder(ast.NodeVisitor):
    def __init__(self, file, source):
        self.file, self.source, self.found = file, source, []
        self.begins = [0]
        for line in source.splitlines(keepends=True):
            self.begins.append(self.begins[-1] + len(line))

    def _start(self, node):
        return self.begins[node.lineno - 1] + node.col_offset

    def _end(self, node):
        return self.begins[node.end_lineno - 1] + node.end_col_offset

    def _text(self, node):
        return self.source[self._start(node) : self._end(node)]

    def _add(self, kind, start, end, text):
        self.found.append(Mutant(self.file, kind, start, end, text))

    def _operator(self, left, right):
        """Changes the operator between two operands, which parentheses may hold."""
        start, end = self._end(left), self._start(right)
        between = self.source[start:end]
        operator = " ".join(between.strip(" ()\\\n").split())
        at = between.find(operator)
        if operator in OPERATORS and at >= 0:
            start += at
            text = OPERATORS[operator]
            self._add(kind_of(operator), start, start + len(operator), text)

    def visit_JoinedStr(self, node):
        """Python before 3.12 does not know where the parts of such a string stand."""

    def visit_AnnAssign(self, node):
        if node.value is not None:
            self.visit(node.value)

    def visit_arg(self, node):
        """Annotations change nothing."""

    def visit_Constant(self, node):
        text = self._text(node)
        if isinstance(node.value, bool):
            self._add("literal", self._start(node), self._end(node), str(not node.value))
        elif isinstance(node.value, (int, float)):
            for sign in "+-":
                self._add("literal", self._start(node), self._end(node), f"({text} {sign} 1)")

    def visit_Compare(self, node):
        for left, right in zip([node.left, *node.comparators], node.comparators):
            self._operator(left, right)
        self.generic_visit(node)

    def visit_BoolOp(self, node):
        for left, right in zip(node.values, node.values[1:]):
            self._operator(left, right)
        self.generic_visit(node)

    def visit_BinOp(self, node):
        self._operator(node.left, node.right)
        self.generic_visit(node)

    def _negated(self, node):
        text = self._text(node.test)
        self._add("condition", self._start(node.test), self._end(node.test), f"(not ({text}))")
        self.generic_visit(node)

    visit_If = visit_While = visit_IfExp = _negated

    def visit_Call(self, node):
        name = getattr(node.func, "attr", getattr(node.func, "id", ""))
        other, end = other_extreme(name), self._end(node.func)
        if other:
            self._add("extreme", end - len(name), end, other)
        # The arguments of an extreme may swap their places.
        for a, b in () if other else zip(node.args, node.args[1:]):
            # Both have one type, as far as the text tells.
            if type(a) is type(b) and not isinstance(a, ast.Starred):
                between = self.source[self._end(a) : self._start(b)]
                swapped = self._text(b) + between + self._text(a)
                self._add("arguments", self._start(a), self._end(b), swapped)
        self.generic_visit(node)

    def generic_visit(self, node):
        call = isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)
        written = isinstance(node, ast.Assign) and not isinstance(
            node.targets[0], (ast.Name, ast.Tuple)
        )
        if call or written or isinstance(node, _DROPPED):
            self._add("statement", self._start(node), self._end(node), "pass")
        if isinstance(node, ast.AugAssign):
            self._operator(node.target, node.value)
        super().generic_visit(node)


def places(root, file):
    """All mutants of a Python file below `root`."""
    source = read(root / file)
    finder = _Finder(file, source)
    finder.visit(ast.parse(source.encode("latin-1")))
    return [one for one in dict.fromkeys(finder.found) if one.applied(source) != source]
