"""In which language something is told, and how: the one catalogue, locale/fr.po, beside the English in the code.

The English of a message is its template, where it is raised (domain/words.py); the catalogue has its French. A code's
own message stands there in both languages, with the code as context, and words of the game with the context `word`.
"""

import re
from enum import StrEnum
from functools import cache
from pathlib import Path

from msgspec import Struct
from starlette.datastructures import Headers

from domain.words import Said

CATALOGUE = Path(__file__).parent / "locale" / "fr.po"

WORD = "word"
"""The context of words in the catalogue: members of the game's enums."""

_RANGES = 50
"""Languages of an Accept-Language that are looked at."""

_RANGE = re.compile(
    r"[ \t]*(\*|[a-z]{1,8}(?:-[a-z0-9]{1,8})*)[ \t]*(?:;[ \t]*q=(0(?:\.\d{0,3})?|1(?:\.0{0,3})?)[ \t]*)?",
    re.ASCII | re.IGNORECASE,
)


class Language(StrEnum):
    """A language in which every message is told."""

    EN = "en"
    FR = "fr"


class Catalogue(Struct, frozen=True):
    """The French words: of templates, of words of the game, and of codes, which are here in English too."""

    templates: dict[str, str]
    words: dict[str, str]
    codes: dict[str, dict[Language, str]]


@cache
def catalogue() -> Catalogue:
    """The catalogue, read when it is first wanted: the service does so at its start."""
    from babel.messages.pofile import read_po  # most commands speak English only, and need not wait for it

    found = Catalogue({}, {}, {})
    with CATALOGUE.open("rb") as file:
        for message in read_po(file, locale=Language.FR, abort_invalid=True):
            english, french = str(message.id), str(message.string)
            if not english:
                continue  # the head of the file
            if message.context is None:
                found.templates[english] = french
            elif message.context == WORD:
                found.words[english] = french
            else:
                found.codes[message.context] = {Language.EN: english, Language.FR: french}
    return found


def tell(language: Language, code: str, told: Said) -> str:
    """What is told with a code, in that language.

    What has no French is told by its code's message, with the English after it.
    """
    if language is Language.EN:
        return str(told)
    try:
        return _french(told)
    except KeyError:
        return _french(Said("{fault}: {rule}", fault=code_message(language, code), rule=str(told)))


def in_language(language: Language, part: Said) -> str:
    """A part of what is told; English where it has no words."""
    try:
        return str(part) if language is Language.EN else _french(part)
    except KeyError:
        return str(part)


def code_message(language: Language, code: str) -> str:
    """What a code means, in general."""
    return catalogue().codes.get(code, {}).get(language, code)


def _french(said: Said) -> str:
    """Raises KeyError for what the catalogue does not have."""
    template = catalogue().templates[said.template]
    fields = {name: _french_field(value) for name, value in said.fields.items()}
    return template.format_map(fields) if fields else template


def _french_field(value: object) -> object:
    match value:
        case Said():
            return _french(value)
        case StrEnum():
            return catalogue().words[value]
        case _:
            return value


def language_of(headers: Headers) -> Language:
    """The language that a request asks for by its Accept-Language."""
    return accepted(",".join(headers.getlist("accept-language")))


def accepted(ranges: str) -> Language:
    """The language that suits an Accept-Language best (RFC 9110, 12.5.4): English if none does, or both the same.

    Of a region its language counts: `fr-CA` is French. What cannot be read is left out.

    >>> accepted("de, fr-CA;q=0.8, en;q=0.5")
    <Language.FR: 'fr'>
    """
    weights: dict[str, float] = {}
    for text in ranges.split(",", _RANGES)[:_RANGES]:
        if found := _RANGE.fullmatch(text):
            language = found[1].lower().partition("-")[0]
            weights[language] = max(weights.get(language, 0.0), float(found[2] or 1))
    others = weights.get("*", 0.0)
    french, english = (weights.get(language, others) for language in (Language.FR, Language.EN))
    return Language.FR if french > english else Language.EN
