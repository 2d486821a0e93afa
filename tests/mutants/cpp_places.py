"""Places to change in a C++ file, from the syntax tree of a unit that compiles it."""

import re

from clang.cindex import CursorKind as Kind
from clang.cindex import Index, TranslationUnit

from .mutant import OPERATORS, Mutant, kind_of, other_extreme, read

_NUMBER = re.compile(r"(0[xX][0-9a-fA-F']+|[0-9][0-9.']*([eE][+-]?[0-9]+)?)[uUlLfF]*")
_CALLEE = re.compile(r"(?:\w+\s*(?:::|\.|->)\s*)*(?:template )?(\w+)\s*(?:<[\w:,\s]*>)?\s*\(")
_BARRIER = re.compile(
    r"Barrier|SyncAll|SetFlag|WaitFlag|fence|\bwait|notify|\bOrder<|HandOver|Await|BeginUse|EndUse"
)
_STATEMENTS = (
    *(Kind.CALL_EXPR, Kind.BINARY_OPERATOR, Kind.COMPOUND_ASSIGNMENT_OPERATOR),
    *(Kind.UNARY_OPERATOR, Kind.UNEXPOSED_EXPR, Kind.CXX_THROW_EXPR),
    *(Kind.BREAK_STMT, Kind.CONTINUE_STMT),
)
_CONDITIONS = (Kind.IF_STMT, Kind.WHILE_STMT, Kind.CONDITIONAL_OPERATOR)
_BODIES = (*_CONDITIONS[:2], Kind.FOR_STMT, Kind.CXX_FOR_RANGE_STMT, Kind.CASE_STMT)


class _Finder:
    def __init__(self, root, file):
        self.path, self.file = str(root / file), file
        self.source, self.found = read(root / file), []

    def _range(self, cursor):
        return cursor.extent.start.offset, cursor.extent.end.offset

    def _text(self, cursor):
        start, end = self._range(cursor)
        return self.source[start:end]

    def _add(self, kind, start, end, text):
        if start < end:
            self.found.append(Mutant(self.file, kind, start, end, text))

    def visit(self, cursor):
        for child in cursor.get_children():
            file = child.location.file
            if child.kind == Kind.NAMESPACE or file is not None and file.name == self.path:
                self._change(child)
                if child.kind != Kind.STATIC_ASSERT:
                    self.visit(child)

    def _change(self, cursor):
        kind = cursor.kind
        if kind in (Kind.INTEGER_LITERAL, Kind.FLOATING_LITERAL, Kind.CXX_BOOL_LITERAL_EXPR):
            self._literal(cursor)
        elif kind in (Kind.BINARY_OPERATOR, Kind.COMPOUND_ASSIGNMENT_OPERATOR):
            self._operator(cursor)
        elif kind == Kind.CALL_EXPR:
            self._call(cursor)
        if kind in _CONDITIONS:
            condition = next(cursor.get_children(), None)
            if condition is not None and condition.kind.is_expression():
                start, end = self._range(condition)
                self._add("condition", start, end, f"!({self._text(condition)})")
        if kind == Kind.COMPOUND_STMT:
            self._drop(list(cursor.get_children()))
        elif kind in _BODIES:
            children = list(cursor.get_children())
            # Else-branches stand beside the other branch, all else before the body.
            self._drop(children[1:] if kind == Kind.IF_STMT else children[-1:])

    def _literal(self, cursor):
        text, (start, end) = self._text(cursor), self._range(cursor)
        if text in ("true", "false"):
            self._add("literal", start, end, "false" if text == "true" else "true")
        elif _NUMBER.fullmatch(text):
            for sign in "+-":
                self._add("literal", start, end, f"({text} {sign} 1)")

    def _operator(self, cursor):
        operands = list(cursor.get_children())
        if len(operands) != 2:
            return
        start, end = self._range(operands[0])[1], self._range(operands[1])[0]
        between = self.source[start:end]
        operator = between.strip()
        if operator in OPERATORS:
            start += between.index(operator)
            self._add(kind_of(operator), start, start + len(operator), OPERATORS[operator])

    def _call(self, cursor):
        start, end = self._range(cursor)
        callee = _CALLEE.match(self.source, start, end)
        other = callee and other_extreme(callee[1])
        if other:  # whose arguments may swap their places
            return self._add("extreme", *callee.span(1), other)
        arguments = [x for x in cursor.get_arguments() if x is not None]
        for a, b in zip(arguments, arguments[1:]):
            (a_start, a_end), (b_start, b_end) = self._range(a), self._range(b)
            between = self.source[a_end:b_start]
            if not start <= a_start < a_end < b_start < b_end <= end or between.strip() != ",":
                continue
            if a.type.get_canonical().spelling == b.type.get_canonical().spelling:
                swapped = self._text(b) + between + self._text(a)
                self._add("arguments", a_start, b_end, swapped)

    def _drop(self, statements):
        for one in statements:
            start, end = self._range(one)
            if one.kind in _STATEMENTS and self.source[end:].lstrip()[:1] == ";":
                kind = "barrier" if _BARRIER.search(self._text(one)) else "statement"
                self._add(kind, start, end, "(void)0")


def parsed(source, flags, text=None):
    """The syntax tree of a unit; `text` instead of a file, which need not be there."""
    unsaved = [] if text is None else [(str(source), text)]
    args = ["-ferror-limit=0", "-w", *flags]
    unit = Index.create().parse(str(source), args=args, unsaved_files=unsaved)
    assert isinstance(unit, TranslationUnit)
    return unit


def places(root, file, unit):
    """All mutants of a file below `root`, which the unit includes."""
    finder = _Finder(root, file)
    finder.visit(unit.cursor)
    return [
        one for one in dict.fromkeys(finder.found) if one.applied(finder.source) != finder.source
    ]
