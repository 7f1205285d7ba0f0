"""The sentences that code can make, read from the code: what a call or a return says, with a 7 for each value.

A sentence is said in one piece: a text that is made longer (`+=`) or shorter (`[:-1]`) afterwards is refused.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import product
from pathlib import Path

from tests.support.repository import ROOT

VALUE = "7"
Function = ast.FunctionDef | ast.AsyncFunctionDef


class Module:
    """One file. `items`: what stands in lists that sentences show."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.tree = ast.parse(file.read_text("utf-8"))
        self._every = [node for node in ast.walk(self.tree) if isinstance(node, Function)]
        self.functions = {node.name: node for node in self._every}
        self.items: set[str] = set()

    def said_in(self, calls: Mapping[str, Sequence[int | str]], elsewhere: Collection[str]) -> Iterator[str]:
        """What these arguments (by position, or by name) of these calls can be; of ".x": what is assigned to an attribute x.

        Raises AssertionError where that cannot be read here; `elsewhere`: expressions whose sentences are made elsewhere.
        """
        for function in [self.tree, *self._every]:
            scope = Scope(self, function)
            for node in own_nodes(function):
                match node:
                    case ast.Call() if (name := name_of(node.func)) in calls:
                        given = [
                            argument for at in calls[name] if (argument := argument_of(node, at)) is not None
                        ]
                    case ast.Assign(targets=[ast.Attribute(attr=name)]) if f".{name}" in calls:
                        given = [node.value]
                    case _:
                        continue
                for each in given:
                    texts = scope.texts(each)
                    source = ast.unparse(each)
                    assert texts is not None or source in elsewhere, (
                        f"{self.file}:{node.lineno}: {source} says what?"
                    )
                    yield from texts or ()

    def returned_by(self, name: str) -> Iterator[str]:
        """What a function can return; of a tuple its last part, and of a list the items."""
        function = self.functions[name]
        scope = Scope(self, function)
        items = [node.elt for node in own_nodes(function) if isinstance(node, ast.ListComp)]
        for value in [*returns(function), *items]:
            yield from scope.texts(value.elts[-1] if isinstance(value, ast.Tuple) else value) or ()


class Scope:
    """The texts of one function, whose parameters may be `given`."""

    def __init__(
        self, module: Module, function: ast.AST, given: dict[str, list[str] | None] | None = None
    ) -> None:
        self._module = module
        self._function = function
        self._given = given or {}

    def texts(self, node: ast.expr) -> list[str] | None:
        """All that an expression can say; None where that is a value."""
        match node:
            case ast.Constant(value=str() | None as text):
                return [] if text is None else [text]
            case ast.JoinedStr():
                parts = [self.texts(each) or [VALUE] for each in node.values]
                return ["".join(each) for each in product(*parts)]
            case ast.FormattedValue() | ast.Starred():
                return self.texts(node.value)
            case ast.BinOp(op=ast.Add()):
                sides = self.texts(node.left), self.texts(node.right)
                if sides == (None, None):
                    return None
                return ["".join(each) for each in product(*(side or [VALUE] for side in sides))]
            case ast.IfExp():
                return self._either(node.body, node.orelse)
            case ast.Name():
                return self._given[node.id] if node.id in self._given else self._named(node.id)
            case ast.Subscript(slice=ast.Slice()) if self.texts(node.value):
                raise AssertionError(f"{self._module.file}:{node.lineno}: a sentence is said in one piece")
            case ast.Call():
                return self._called(node)
        return None

    def _either(self, *nodes: ast.expr) -> list[str] | None:
        found = [self.texts(node) for node in nodes]
        if all(texts is None for texts in found):
            return None
        return [text for texts in found for text in (texts if texts is not None else [VALUE])]

    def _named(self, name: str) -> list[str] | None:
        given: list[ast.expr] = []
        for node in own_nodes(self._function):
            match node:
                case ast.Assign(targets=[ast.Name(id=target)], value=value) if target == name:
                    given.append(value)
                case ast.AugAssign(target=ast.Name(id=target)) if target == name and self.texts(node.value):
                    raise AssertionError(
                        f"{self._module.file}:{node.lineno}: a sentence is said in one piece"
                    )
                case ast.ImportFrom(module=str(module), names=names) if name in [one.name for one in names]:
                    file = ROOT / f"{module.replace('.', '/')}.py"
                    if name.isupper() and file.exists():
                        imported = Module(file)
                        return Scope(imported, imported.tree)._named(name)
        if not given and self._function is not self._module.tree:
            return Scope(self._module, self._module.tree)._named(name)
        return self._either(*given) if given else None

    def _called(self, node: ast.Call) -> list[str] | None:
        name = name_of(node.func)
        if name == "split_advice":
            return self.texts(node.args[0])
        if name == "replace" and isinstance(node.func, ast.Attribute):
            return self.texts(node.func.value)
        if name == "join" and isinstance(node.args[0], ast.GeneratorExp | ast.ListComp | ast.Name):
            for items in self._lists(node.args[0]):
                self._module.items.update(self.texts(items) or ())
            return None
        function = self._module.functions.get(name) if isinstance(node.func, ast.Name) else None
        if function is None:
            return None
        names = [argument.arg for argument in function.args.args]
        given = {key: self.texts(value) for key, value in zip(names, node.args, strict=False)}
        scope = Scope(self._module, function, given)
        return scope._either(*returns(function))

    def _lists(self, node: ast.expr) -> Iterator[ast.expr]:
        """What each item of a list is."""
        if isinstance(node, ast.GeneratorExp | ast.ListComp):
            yield node.elt
        elif isinstance(node, ast.Name):
            for each in own_nodes(self._function):
                if isinstance(each, ast.Assign) and ast.unparse(each.targets[0]) == node.id:
                    yield from self._lists(each.value)


def name_of(function: ast.expr) -> str:
    """`f` of f(), a.f() and a.b.f()."""
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


def argument_of(call: ast.Call, at: int | str) -> ast.expr | None:
    """The argument at a position, or of a name."""
    if isinstance(at, str):
        return next((given.value for given in call.keywords if given.arg == at), None)
    return call.args[at] if -len(call.args) <= at < len(call.args) else None


def returns(function: Function) -> list[ast.expr]:
    """What a function returns."""
    return [
        node.value for node in own_nodes(function) if isinstance(node, ast.Return) and node.value is not None
    ]


def own_nodes(function: ast.AST) -> Iterator[ast.AST]:
    """The nodes of a function, or of a module, without those of the functions in it."""
    for node in ast.iter_child_nodes(function):
        if not isinstance(node, Function):
            yield node
            yield from own_nodes(node)
