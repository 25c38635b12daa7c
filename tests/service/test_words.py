"""Every message is said in English and in French: what the code can say, and what the service answers."""

import ast
from pathlib import Path
from typing import NamedTuple

from service.words import CATALOGUE

ROOT = Path(__file__).parents[2]
LAYERS = ("domain", "infra", "service")

TEXTS = {
    "Said": (0,),
    "RuleError": (1,),
    "ApiError": (1,),
    "Problem": (2,),
    "HTTPException": (1,),
    "NotExpressible": (0,),
    "Broken": (1,),
    "FileError": (2, 4),
    ".error": (0, 1),  # of a Place in a file
    ".do": (2,),  # of a Reading
}
"""What makes something that is told, and which of its arguments are the texts."""

NO_FIELDS = {"legal_plays", "beside"}
"""What those are given by name that is no field of the template."""

HOW = (
    "A message is a literal text with named fields, and what stands in them: "
    'RuleError(Breach.X, "at most {most} can be; got {got}", most=9, got=n). No f-string, +, .format() or variable that '
    "holds a text; a part that differs is a Said(…) in a field, a library's text a Foreign(…). "
    f"Then add its French to {CATALOGUE.relative_to(ROOT)}."
)


class Told(NamedTuple):
    """A template in the code, with the names of the fields that it is given there."""

    where: str
    template: str
    given: frozenset[str]


class _Walk(ast.NodeVisitor):
    """Finds what a module can tell, and what is no template."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.told: list[Told] = []
        self.wrong: list[str] = []
        self.constants: set[str] = set()
        self._names: list[dict[str, bool]] = [{}]
        """Of each function around: the names in it that can hold a text, and whether they never hold a plain one."""

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        arguments = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
        names = {each.arg: each.annotation is not None and "Said" in ast.unparse(each.annotation) for each in arguments}
        for inner in ast.walk(node):
            if isinstance(inner, ast.Assign):
                for target in inner.targets:
                    if isinstance(target, ast.Name):
                        names[target.id] = names.get(target.id, True) and self._is_said(inner.value)
                    elif isinstance(target, ast.Tuple):
                        names |= {each.id: each.id == "said" for each in target.elts if isinstance(each, ast.Name)}
            elif isinstance(inner, ast.AnnAssign) and isinstance(inner.target, ast.Name):
                names[inner.target.id] = "Said" in ast.unparse(inner.annotation)
        self._names.append(names)
        self.generic_visit(node)
        self._names.pop()

    visit_AsyncFunctionDef = visit_FunctionDef

    def visit_Assign(self, node: ast.Assign) -> None:
        if len(self._names) == 1 and self._is_said(node.value):
            self.constants |= {target.id for target in node.targets if isinstance(target, ast.Name)}
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        function = node.func
        name = function.id if isinstance(function, ast.Name) else ""
        if isinstance(function, ast.Attribute) and ast.unparse(function.value) != "logger":
            name = f".{function.attr}"
        where = f"{self.file}:{node.lineno}"
        for place in TEXTS.get(name, ()):
            if any(isinstance(argument, ast.Starred) for argument in node.args[: place + 1]):
                self.wrong.append(f"{where}: {name}(*…) hides its message")
            elif place < len(node.args):
                self._text(node.args[place], node, where)
        self.generic_visit(node)

    def _text(self, text: ast.expr, call: ast.Call, where: str) -> None:
        if isinstance(text, ast.IfExp):
            self._text(text.body, call, where)
            self._text(text.orelse, call, where)
        elif isinstance(text, ast.Constant) and isinstance(text.value, str):
            given = {keyword.arg or "**" for keyword in call.keywords} - NO_FIELDS
            self.told.append(Told(where, text.value, frozenset(given)))
        elif not self._is_said(text):
            self.wrong.append(f"{where}: {ast.unparse(text)}")

    def _is_said(self, value: ast.expr) -> bool:
        match value:
            case ast.Call(func=ast.Name(id="Said" | "Foreign" | "_offer" | "said" | "reduce")):
                return True
            case ast.IfExp(body=body, orelse=orelse):
                return self._is_said(body) and self._is_said(orelse)
            case ast.Attribute(attr="said" | "wanted"):
                return True
            case ast.Name(id=name) if not name.isupper():
                return any(names.get(name, False) for names in self._names[-1:])
            case ast.Name(id=name):
                return name in CONSTANTS
            case _:
                return False


CONSTANTS: set[str] = set()


def walked() -> tuple[list[Told], list[str]]:
    """All templates of the code, and all that should be one and is not."""
    walks = []
    for _ in range(2):  # constants are known the second time
        walks = [_Walk(str(file.relative_to(ROOT))) for layer in LAYERS for file in sorted((ROOT / layer).rglob("*.py"))]
        for walk in walks:
            walk.visit(ast.parse((ROOT / walk.file).read_text()))
            CONSTANTS.update(walk.constants)
    return [told for walk in walks for told in walk.told], [wrong for walk in walks for wrong in walk.wrong]
