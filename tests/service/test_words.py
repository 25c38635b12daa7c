"""Every message is said in English and in French: what the code can say, and what the service answers."""

import ast
import asyncio
import json
import re
import string
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, NamedTuple

import httpx2
import pytest
from babel.messages.catalog import Message
from babel.messages.pofile import read_po
from hypothesis import given
from hypothesis import strategies as st
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from domain.board import Color
from domain.breach import Breach, RuleError
from domain.events import Stake
from domain.match import End
from domain.notation import parse_play
from domain.words import Foreign, Said
from service import limits
from service.errors import ErrorCode
from service.words import CATALOGUE, WORD, Language, accepted, code_message, tell
from tests.client import Client, register
from tests.server import Server

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

CODE = re.compile("`[^`]*`")
"""What is to be written so, in every language."""

NO_FIELDS = {"legal_plays", "beside"}
"""What those are given by name that is no field of the template."""

HOW = (
    "A message is a literal text with named fields, and what stands in them, like "
    'ApiError(ErrorCode.BAD_INPUT, "first is {first}; a page has 1 to {most} items", first=first, most=PAGE): '
    "no f-string, +, .format() or variable with a text, so that it can be said in French too. A part that differs is a "
    "Said(…) in a field; a text that is a library's is a Foreign(…); what stands beside a problem is beside={…}."
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
        self._bases: list[str] = [""]
        """Of each class around: what it derives from that is told."""
        self._names: list[dict[str, bool]] = [{}]
        """Of each function around: the names in it that can hold a text, and whether they never hold a plain one."""

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self._bases.append(
            next((base.id for base in node.bases if isinstance(base, ast.Name) and base.id in TEXTS), "")
        )
        self.generic_visit(node)
        self._bases.pop()

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
            is_super = ast.unparse(function) == "super().__init__"
            name = self._bases[-1] if is_super else f".{function.attr}"
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
        elif not self._is_said(text) and ast.unparse(call.func) != "HTTPException":  # whose other texts are libraries'
            self.wrong.append(f"{where}: {ast.unparse(text)}")

    def _is_said(self, value: ast.expr) -> bool:
        """Whether it is no plain text: made by one of those that are looked at, or typed so."""
        match value:
            case ast.Call(func=ast.Name(id="Said" | "Foreign" | "said" | "reduce")):
                return True
            case ast.IfExp(body=body, orelse=orelse):
                return self._is_said(body) and self._is_said(orelse)
            case ast.Attribute(attr="said" | "wanted"):
                return True
            case ast.Name(id=name) if name.isupper():
                return name in CONSTANTS
            case ast.Name(id=name):
                return self._names[-1].get(name, False)
            case _:
                return False


CONSTANTS: set[str] = set()
"""Names of modules that stand for a Said."""


def walk(sources: dict[str, str]) -> tuple[list[Told], list[str]]:
    """All templates of these modules, and all that should be one and is not."""
    walks = []
    for _ in range(2):  # constants are known the second time
        walks = [_Walk(file) for file in sources]
        for each in walks:
            each.visit(ast.parse(sources[each.file]))
            CONSTANTS.update(each.constants)
    return [told for each in walks for told in each.told], [wrong for each in walks for wrong in each.wrong]


@pytest.fixture(scope="module")
def walked() -> tuple[list[Told], list[str]]:
    """What all our code can tell."""
    files = [file for layer in LAYERS for file in sorted((ROOT / layer).rglob("*.py"))]
    return walk({str(file.relative_to(ROOT)): file.read_text() for file in files})


@pytest.fixture(scope="module")
def entries() -> list[Message]:
    """The catalogue as it is written."""
    with CATALOGUE.open("rb") as file:
        read = read_po(file, abort_invalid=True)
    assert not read.obsolete, "entries that are commented out (#~) are nobody's words: remove them"
    return [message for message in read if message.id]


def fields(template: str) -> list[tuple[str, str | None]]:
    """The fields of a template, each with its conversion; what is no plain name in braces is an error."""
    found = []
    for _, name, spec, conversion in string.Formatter().parse(template):
        if name is not None:
            assert name.isidentifier(), f"{template!r}: {{{name}}} is no name"
            assert not spec, f"{template!r}: {{{name}:{spec}}} has a format, which belongs to the value"
            found.append((name, conversion))
    return sorted(found, key=str)


# the catalogue


def test_every_message_is_a_template_with_its_fields(walked: tuple[list[Told], list[str]]) -> None:
    told, wrong = walked
    assert len(told) > 200
    assert not wrong, "\n".join([HOW, *wrong])
    for where, template, there in told:
        wanted = {name for name, _ in fields(template)}
        assert wanted == there, f"{where}: {template!r} is given {sorted(there)}. {HOW}"


def test_every_message_is_in_the_catalogue_and_nothing_else(
    walked: tuple[list[Told], list[str]], entries: list[Message]
) -> None:
    told, _ = walked
    there = {str(entry.id) for entry in entries if entry.context is None}
    missing = {template: where for where, template, _ in told if template not in there}
    to_add = "\n".join(
        f'# {where}\nmsgid {json.dumps(template, ensure_ascii=False)}\nmsgstr ""\n'
        for template, where in missing.items()
    )
    assert not missing, f"add to {CATALOGUE.relative_to(ROOT)}, with the same fields in msgstr:\n\n{to_add}"
    dead = there - {template for _, template, _ in told}
    assert not dead, f"nothing says these any more: remove them from {CATALOGUE.relative_to(ROOT)}: {sorted(dead)}"


def test_every_code_and_every_word_is_in_the_catalogue_and_nothing_else(entries: list[Message]) -> None:
    codes = [entry.context for entry in entries if entry.context not in (None, WORD)]
    wanted = {*(breach.name for breach in Breach), *(code.value for code in ErrorCode)}
    to_add = "\n".join(f'msgctxt "{code}"\nmsgid ""\nmsgstr ""\n' for code in sorted(wanted - set(codes)))
    assert wanted <= set(codes), f"add to {CATALOGUE.relative_to(ROOT)}, msgid in English:\n\n{to_add}"
    assert sorted(codes) == sorted(wanted), f"no such codes, or twice: {sorted(set(codes) - wanted)}"
    words = {str(entry.id) for entry in entries if entry.context == WORD}
    assert words == {word.value for kind in (Color, Stake, End) for word in kind}


def test_the_french_has_the_fields_of_the_english_and_is_well_set(entries: list[Message]) -> None:
    for entry in entries:
        english, french = str(entry.id), str(entry.string)
        assert french.strip(), f"{english!r} has no French"
        assert not entry.fuzzy, f"{english!r}: look at its French again, and remove `fuzzy`"
        if entry.context in (None, WORD):
            assert fields(french) == fields(english), (english, french)
        else:
            assert not fields(english) + fields(french), f"{entry.context}: a code's message has no fields"
        assert CODE.findall(french) == CODE.findall(english), f"{french!r}: what is between backquotes stays as it is"
        prose = CODE.sub("", french)
        assert " :" not in prose, f"{french!r}: a no-break space stands before the colon"
        assert " ;" not in prose, f"{french!r}: a no-break space stands before the semicolon"


@pytest.mark.parametrize(
    "source",
    [
        'raise RuleError(Breach.X, f"got {n}")',
        'raise RuleError(Breach.X, "got " + n)',
        'raise RuleError(Breach.X, "got {}".format(n))',
        'raise RuleError(*found)',
        'raise ApiError(code, str(error))',
        'def f(text: str):\n raise ApiError(code, text)',
        'def f():\n text = f"got {n}"\n raise ApiError(code, text)',
        'def f():\n said = "got " + n\n raise ApiError(code, said)',
        'def f():\n raise at.error("a play", f"{n} cannot be")',
        'raise Problem(400, code, error.message)',
        'TEXT = "a"\nraise Problem(400, code, TEXT)',
        "Said(template, n=1)",
        'class Late(ApiError):\n def __init__(self):\n  super().__init__(code, f"got {n}")',
    ],
)  # fmt: skip
def test_a_message_that_is_no_template_is_found(source: str) -> None:
    assert walk({"module.py": source})[1]


def test_what_has_no_french_is_told_by_its_code_with_the_english_after_it() -> None:
    ours = Said("nobody has translated {this}", this="this")
    french = code_message(Language.FR, "NOT_YOUR_TURN")
    assert tell(Language.EN, "NOT_YOUR_TURN", ours) == "nobody has translated this"
    assert tell(Language.FR, "NOT_YOUR_TURN", ours) == f"{french}\u00a0: nobody has translated this"
    assert tell(Language.FR, "BAD_REQUEST", Foreign("{oops}")).endswith("\u00a0: {oops}")
    assert tell(Language.EN, "BAD_REQUEST", Foreign("{oops}")) == "{oops}"


def test_words_of_the_game_are_translated_where_they_stand_in_a_message() -> None:
    error = RuleError(
        Breach.ANSWER_FIRST, "accept or refuse {side}'s {offer} first", side=Color.BLACK, offer=Said("double")
    )
    assert error.message == str(error) == "accept or refuse black's double first"
    assert tell(Language.FR, "ANSWER_FIRST", error.said) == "acceptez ou refusez d'abord l'offre de Noir (double)"


def test_what_a_caller_writes_is_never_taken_for_a_template() -> None:
    with pytest.raises(RuleError) as refused:
        parse_play("{0}{x!r}{")
    assert "{0}{x!r}{" in refused.value.message
    assert "{0}{x!r}{" in tell(Language.FR, "MALFORMED_NOTATION", refused.value.said)


# which language


@pytest.mark.parametrize(
    ("asked", "language"),
    [
        ("", "en"),
        ("fr", "fr"),
        ("FR", "fr"),
        ("fr-CA", "fr"),
        ("fr-Latn-CH, en", "en"),  # both the same
        ("en, fr", "en"),
        ("fr;q=0.9, en;q=0.8", "fr"),
        ("fr;q=0.8, en;q=0.9", "en"),
        ("en;q=0.1, fr-BE;q=0.2, fr;q=0.05", "fr"),
        ("de, fr;q=0.001", "fr"),
        ("de, *;q=0.5", "en"),
        ("*", "en"),
        ("*;q=0.5, en;q=0.1", "fr"),
        ("*, en;q=0", "fr"),
        ("fr;q=0, *", "en"),
        ("fr;q=0", "en"),
        ("fr;q=1.000 , en ; q=0.999", "fr"),
        ("fr;q=2, en", "en"),
        ("fr;q=", "en"),
        ("fr;q=0.1234", "en"),
        ("français", "en"),
        ("frisian", "en"),
        ("fr_FR", "en"),
        (",,;q=1,fr", "fr"),
        ("de," * 49 + "fr", "fr"),
        ("de," * 10_000 + "fr", "en"),
    ],
)
def test_the_language_is_the_one_with_the_highest_weight(asked: str, language: str) -> None:
    assert accepted(asked) == language


@given(st.text())
def test_no_accept_language_is_an_error(asked: str) -> None:
    assert accepted(asked) in set(Language)


# over HTTP

ROLL = "mutation($m: ID!, $key: String) { roll(matchId: $m, idempotencyKey: $key) { ... on Refusal { code message } } }"
BOTH = (
    "mutation($m: ID!) { roll(matchId: $m) { ... on Refusal { en: message(language: EN) fr: message(language: FR) } } }"
)
IT_IS = {"en": "it is white's turn", "fr": "c'est à Blanc de jouer"}


@pytest.fixture
async def table(server: Server) -> AsyncIterator[tuple[str, Client, Client]]:
    """A match in which it is white's turn, and both players."""
    white, black = await register(server.url, "Ann"), await register(server.url, "Bob")
    match_id = await white.create("{length: 1, sandbox: {dice: [[3, 1]]}}")
    await black.happens("joinMatch", f'matchId: "{match_id}"')
    yield match_id, white, black
    await white.close()
    await black.close()


async def post(client: Client, language: str | None, query: str, **variables: Any) -> httpx2.Response:
    headers = {"accept-language": language} if language is not None else {}
    headers |= {"authorization": f"Bearer {client.token}"} if client.token else {}
    async with httpx2.AsyncClient(timeout=30, verify=False) as http:
        return await http.post(client.url, json={"query": query, "variables": variables}, headers=headers)


@pytest.mark.parametrize(
    ("asked", "language"), [(None, "en"), ("fr-CA, en;q=0.5", "fr"), ("en, fr;q=0.5", "en"), ("fr;q=x,,=;", "en")]
)
async def test_a_refusal_is_in_the_language_of_the_request(
    table: tuple[str, Client, Client], asked: str | None, language: str
) -> None:
    match_id, _, black = table
    response = await post(black, asked, ROLL, m=match_id)
    assert response.json()["data"]["roll"] == {"code": "NOT_YOUR_TURN", "message": IT_IS[language]}
    assert response.headers["content-language"] == language
    assert "accept-language" in response.headers["vary"]


async def test_a_refusal_is_in_the_language_of_the_argument(table: tuple[str, Client, Client]) -> None:
    match_id, _, black = table
    for asked in (None, "fr"):
        assert (await post(black, asked, BOTH, m=match_id)).json()["data"]["roll"] == IT_IS


async def test_a_command_sent_again_with_its_key_is_refused_in_the_language_it_is_sent_with(
    table: tuple[str, Client, Client],
) -> None:
    match_id, white, black = table
    for asked, language in (("fr", "fr"), ("en", "en"), ("fr", "fr")):
        refusal = (await post(black, asked, ROLL, m=match_id, key="again")).json()["data"]["roll"]
        assert refusal["message"] == IT_IS[language]
    move = f'matchId: "{match_id}", play: {{notation: "8/5 6/5"}}, idempotencyKey: "used"'
    await white.happens("move", move)
    await white.happens("move", move)
    for asked, language in (("fr", "fr"), ("en", "en")):
        refusal = (await post(white, asked, ROLL, m=match_id, key="used")).json()["data"]["roll"]
        said = Said("the idempotency key {key!r} was used before with other input", key="used")
        assert refusal == {"code": "KEY_REUSED", "message": tell(Language(language), "KEY_REUSED", said)}


@pytest.mark.parametrize(
    ("query", "code", "french"),
    [
        ("{ matches(first: 0) { edges { cursor } } }", "BAD_INPUT", "first est 0 ; une page a de 1 à 100 éléments"),
        ('mutation { registerGuest(name: "") { token } }', "BAD_INPUT", "un nom a de 1 à 40 caractères imprimables"),
        ("{ nonsense }", "VALIDATION_FAILED", "la requête ne correspond pas au schéma : Cannot query field 'nonsense'"),
        ("{", "PARSE_FAILED", "la requête n'est pas du GraphQL : Syntax Error"),
        ("{" * 99, "QUERY_TOO_DEEP", "la requête est imbriquée sur plus de 60 niveaux"),
        ("query a { me { id } } query b { me { id } }", "BAD_REQUEST", "la requête contient plusieurs opérations : "),
        ('mutation { roll(matchId: "x") { __typename } }', "UNAUTHENTICATED", "seul un joueur peut faire cela : "),
        (
            "{ " + " ".join(f"a{n}: me {{ id }}" for n in range(31)) + " }",
            "TOO_MANY_ALIASES",
            "la requête est trop grande (nombre d'alias : 31) ; le maximum est 30",
        ),
    ],
)
async def test_errors_are_in_french_and_in_english_whoever_asked_before(
    anonymous: Client, query: str, code: str, french: str
) -> None:
    english = (await post(anonymous, None, query)).json()["errors"][0]
    in_french = (await post(anonymous, "fr", query)).json()["errors"][0]
    again = (await post(anonymous, "en", query)).json()["errors"][0]
    assert english == again
    assert english["extensions"]["code"] == in_french["extensions"]["code"] == code
    assert in_french["message"].replace("\u00a0", " ").startswith(french)
    assert in_french["message"] != english["message"]
    assert {**in_french, "message": ""} == {**english, "message": ""}  # locations, path, extensions


async def test_what_is_no_operation_is_answered_in_french_too(anonymous: Client) -> None:
    async with httpx2.AsyncClient(timeout=30, verify=False, headers={"accept-language": "fr"}) as http:
        for body, french in (
            (b"[", "cette requête n'est pas de celles qui sont servies ici : Unable to read"),
            (b"[1]", "cette requête n'est pas de celles qui sont servies ici : "),
            (b"5", "cette requête n'est pas de celles qui sont servies ici : "),
            (b"", "le corps de la requête est du JSON : "),
            (b" " * (limits.BODY_BYTES + 1), "le corps d'une requête a au plus 100000 octets"),
        ):
            kind = "application/json" if body else "text/plain"
            response = await http.post(anonymous.url, content=body, headers={"content-type": kind})
            assert response.json()["errors"][0]["message"].replace("\u00a0", " ").startswith(french)
            assert response.headers["content-language"] == "fr"


async def test_every_code_can_be_asked_for_in_every_language(anonymous: Client) -> None:
    found = await anonymous.ask(
        "{ codes { code message } en: codes(language: EN) { code message } fr: codes(language: FR) { code message } }"
    )
    assert found["codes"] == found["en"]
    for language in Language:
        codes = {each["code"]: each["message"] for each in found[language]}
        assert len(codes) == len(found[language]) == len(Breach) + len(ErrorCode)
        assert codes["NOT_YOUR_TURN"] == code_message(language, "NOT_YOUR_TURN") != "NOT_YOUR_TURN"
    assert all(en["message"] != fr["message"] for en, fr in zip(found["en"], found["fr"], strict=True))


@pytest.mark.parametrize("accept", ["application/json", "text/event-stream"])
async def test_problems_are_in_the_language_of_the_request(server: Server, accept: str) -> None:
    async with httpx2.AsyncClient(base_url=server.base, timeout=30, verify=False) as http:
        path = "/matches/nope/events"
        english = await http.get(path, headers={"accept": accept})
        french = await http.get(path, headers={"accept": accept, "accept-language": "fr;q=0.3"})
    assert english.json()["detail"] == "there is no match 'nope' that you may see"
    assert french.json()["detail"] == "il n'y a pas de match 'nope' que vous puissiez voir"
    for response, language in ((english, "en"), (french, "fr")):
        assert response.status_code == 404
        assert response.headers["content-type"] == "application/problem+json"
        assert response.headers["content-language"] == language
        assert "accept-language" in response.headers["vary"]
    assert {**english.json(), "detail": ""} == {**french.json(), "detail": ""}


async def test_a_file_that_cannot_be_read_is_told_in_french(table: tuple[str, Client, Client], server: Server) -> None:
    _, white, _ = table
    headers = {"authorization": f"Bearer {white.token}", "accept-language": "fr"}
    async with httpx2.AsyncClient(base_url=server.base, timeout=30, verify=False, headers=headers) as http:
        mat = (await http.post("/matches/import", content=b" 7 point match\n\n Game 1\n")).json()
        log = (await http.post("/matches/import", content=b'{"at":1}')).json()
    assert mat["code"] == log["code"] == "BAD_FILE"
    assert mat["detail"].replace("\u00a0", " ") == (
        "ligne 4, colonne 1 : attendu les joueurs et le score, `White : 0   Black : 0`, trouvé 'la fin du fichier'"
    )
    assert (mat["expected"], mat["got"]) == ("les joueurs et le score, `White : 0   Black : 0`", "la fin du fichier")
    assert log["detail"].startswith("seq 1\u00a0: ce n'est pas un enregistrement")


# over websockets

WATCH = "subscription($m: ID!, $after: Int!) { matchEvents(matchId: $m, after: $after) { seq } }"


async def opened(url: str, header: str | None, payload: dict[str, Any]) -> ClientConnection:
    headers = {"accept-language": header} if header else {}
    socket = await connect(
        url.replace("http", "ws", 1), subprotocols=["graphql-transport-ws"], additional_headers=headers
    )
    await socket.send(json.dumps({"type": "connection_init", "payload": payload}))
    return socket


async def asked_on(socket: ClientConnection, id: str, query: str, **variables: Any) -> dict[str, Any]:
    """The first message that answers an operation."""
    await socket.send(json.dumps({"id": id, "type": "subscribe", "payload": {"query": query, "variables": variables}}))
    async with asyncio.timeout(15):
        while (message := json.loads(await socket.recv()))["type"] == "connection_ack" or message["id"] != id:
            pass
    return message


@pytest.mark.parametrize(
    ("header", "payload", "language"),
    [
        (None, {}, "en"),
        ("fr", {}, "fr"),
        (None, {"language": "FR"}, "fr"),
        (None, {"language": "fr-CA, en;q=0.2"}, "fr"),
        ("fr", {"language": "en"}, "en"),
        ("fr", {"language": 5}, "fr"),
        ("fr", {"language": "\x00"}, "en"),
    ],
)
async def test_a_websocket_has_the_language_of_its_request_or_of_its_connection_init(
    table: tuple[str, Client, Client], header: str | None, payload: dict[str, Any], language: str
) -> None:
    match_id, _, black = table
    async with await opened(black.url, header, {**payload, "authorization": f"Bearer {black.token}"}) as socket:
        refused = await asked_on(socket, "1", ROLL, m=match_id)
        assert refused["payload"]["data"]["roll"]["message"] == IT_IS[language]
        unknown = await asked_on(socket, "2", WATCH, m="nope", after=0)
        said = Said("there is no match {match!r} that you may see", match="nope")
        message = (unknown["payload"] if unknown["type"] == "error" else unknown["payload"]["errors"])[0]["message"]
        assert message == tell(Language(language), "MATCH_NOT_FOUND", said)
        wrong = await asked_on(socket, "3", "{ nonsense }")
        assert wrong["payload"][0]["message"].startswith("la requête" if language == "fr" else "Cannot query")


async def test_watchers_of_the_same_match_are_told_the_same_in_their_own_languages(
    table: tuple[str, Client, Client], anonymous: Client
) -> None:
    match_id, white, _ = table
    watch = WATCH.replace("seq", "seq match { events(first: 0) { edges { cursor } } }")
    version = (await white.match(match_id, "version"))["version"]
    languages = ["fr", "en", "fr", "en"]
    sockets = [await opened(anonymous.url, None, {"language": language}) for language in languages]
    heard: list[list[str]] = [[] for _ in sockets]
    for number, socket in enumerate(sockets):  # what there is already, from a place of its own each
        message = await asked_on(socket, "1", watch, m=match_id, after=version - 1)
        heard[number].append(message["payload"]["errors"][0]["message"])
    await white.happens("move", f'matchId: "{match_id}", play: {{notation: "8/5 6/5"}}')
    for number, socket in enumerate(sockets):  # and what all are sent at once
        message = json.loads(await asyncio.wait_for(socket.recv(), 15))
        heard[number].append(message["payload"]["errors"][0]["message"])
        await socket.close()
    said = Said("first is {first}; a page has 1 to {most} items", first=0, most=limits.PAGE)
    assert heard == [[tell(Language(language), "BAD_INPUT", said)] * 2 for language in languages]


async def test_a_websocket_is_closed_with_a_reason_in_its_language(anonymous: Client) -> None:
    async with await opened(anonymous.url, None, {"language": "fr", "authorization": "x"}) as socket:
        with pytest.raises(ConnectionClosed):
            await asyncio.wait_for(socket.recv(), 15)
        assert socket.close_code == 4403
        assert (socket.close_reason or "") == "TOKEN_INVALID: authorization s'écrit `Bearer` suivi d'un jeton"
