"""Trusted documents: operations that an app has registered, sent by their hash; an app can be held to them."""

import hashlib
import re
import time
from collections import OrderedDict
from typing import Any, NamedTuple

from graphql import GraphQLSyntaxError, parse, specified_rules, validate

from infra.store import SqlStore
from service.errors import ApiError, ErrorCode
from service.limits import NESTING, QUERY_TOKENS, QueryLimits, nesting

KEPT_DOCUMENTS = 1_000
"""Documents kept in memory."""

HELD_SECONDS = 10
"""How long what is known of an app's being held may be old."""

_HASH = re.compile(r"[0-9a-f]{64}", re.ASCII)


class _Document(NamedTuple):
    text: str
    apps: frozenset[str]
    """Those that have registered it; others may have since."""


class TrustedDocuments:
    """The registered documents, as far as this process has seen them. What a hash stands for never changes."""

    def __init__(self, store: SqlStore) -> None:
        self._store = store
        self._documents: OrderedDict[str, _Document] = OrderedDict()
        self._held: dict[str, tuple[bool, float]] = {}

    async def text_of(self, app: str, query: str | None, extensions: dict[str, Any] | None) -> str | None:
        """The text that a request of an app's user stands for; None if it names none.

        Raises ApiError DOCUMENT_UNKNOWN, DOCUMENT_NOT_REGISTERED or BAD_REQUEST; or Unavailable.
        """
        if query is not None:
            if app and await self._is_held(app):
                await self._check(app, hashlib.sha256(query.encode(errors="replace")).hexdigest())
            return query
        hash_ = hash_of(extensions)
        if hash_ is None:
            return None
        found = await self._find(hash_, app)
        if found is None:
            raise ApiError(
                ErrorCode.DOCUMENT_UNKNOWN, "no app has registered a document with SHA-256 {hash}", hash=hash_
            )
        if app and app not in found.apps and await self._is_held(app):
            raise _not_registered(app, hash_)
        return found.text

    async def _check(self, app: str, hash_: str) -> None:
        found = await self._find(hash_, app)
        if found is None or app not in found.apps:
            raise _not_registered(app, hash_)

    async def _find(self, hash_: str, app: str) -> _Document | None:
        """The document of a hash; looked for again if it is not known to be the app's."""
        found = self._documents.get(hash_)
        if found is None or (app and app not in found.apps):
            rows = await self._store.documents_of_hash(hash_)
            if not rows:
                return None
            found = _Document(rows[0].document, frozenset(row.app for row in rows))
            self._documents[hash_] = found
            while len(self._documents) > KEPT_DOCUMENTS:
                self._documents.popitem(last=False)
        return found

    async def _is_held(self, app: str) -> bool:
        held, until = self._held.get(app, (False, 0.0))
        if until < time.monotonic():
            held = await self._store.is_held(app)
            self._held[app] = held, time.monotonic() + HELD_SECONDS
        return held


def hash_of(extensions: dict[str, Any] | None) -> str | None:
    """The hash in a request's `documentId`, or in its `persistedQuery` as Apollo's clients write it; None if there is
    neither. Raises ApiError BAD_REQUEST."""
    if not extensions:
        return None
    given = extensions.get("documentId")
    if given is None:
        persisted = extensions.get("persistedQuery")
        if persisted is None:
            return None
        given = f"sha256:{persisted.get('sha256Hash')}" if isinstance(persisted, dict) else persisted
    if isinstance(given, str) and given.startswith("sha256:") and _HASH.fullmatch(given[7:]):
        return given[7:]
    raise ApiError(
        ErrorCode.BAD_REQUEST,
        "the document's id is {got!r}; it is `sha256:` and 64 hexadecimal digits in lower case",
        got=str(given)[:100],
    )


def problem_of(text: str) -> str | None:
    """Why a document can never be executed; None if it can."""
    from service.schema import schema  # here, since serving needs no second look

    if nesting(text) > NESTING:
        return f"it is nested more than {NESTING} levels deep"
    try:
        document = parse(text, max_tokens=QUERY_TOKENS)
    except GraphQLSyntaxError as error:
        return str(error)
    errors = validate(schema._schema, document, [*specified_rules, QueryLimits], max_errors=1)
    return str(errors[0]) if errors else None


def _not_registered(app: str, hash_: str) -> ApiError:
    return ApiError(
        ErrorCode.DOCUMENT_NOT_REGISTERED,
        "users of the app {app} may send its registered documents alone, and none has SHA-256 {hash}",
        app=app,
        hash=hash_,
    )
