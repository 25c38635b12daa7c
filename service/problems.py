"""What is wrong with a plain HTTP request: `application/problem+json` (RFC 9457), with a code from the closed lists."""

from collections.abc import Mapping
from http import HTTPStatus

import msgspec
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, HTTPConnection
from starlette.responses import Response

from domain.breach import Breach, RuleError
from domain.matchfile import FileError, NotExpressible
from domain.words import Foreign, Said, said
from infra.log import Broken
from infra.store import Unavailable
from service import limits
from service.errors import INTERNAL, UNAVAILABLE, ApiError, ErrorCode, logger, status_of, told_codes
from service.rates import RateLimited
from service.words import in_language, language_of, tell


class Problem(Exception):
    """A request that is not served: status, code, the reason in words, and what stands beside them in the answer."""

    def __init__(
        self,
        status: int,
        code: str,
        text: str | Said,
        /,
        *,
        beside: Mapping[str, object] | None = None,
        **more: object,
    ) -> None:
        self.said = said(text, more)
        super().__init__(str(self.said))
        self.status, self.code, self.beside = status, code, beside or {}


FORESEEN = (
    Problem,
    FileError,
    Broken,
    NotExpressible,
    RuleError,
    Unavailable,
    ApiError,
    HTTPException,
    ClientDisconnect,
)
"""What `answer_problem` knows the words for; anything else is an error of ours."""


_STATUS = {Breach.MATCH_NOT_FOUND: 404, Breach.CODE_UNKNOWN: 404, Breach.CODE_EXPIRED: 410}


def problem_of(error: Exception) -> Problem:
    """The problem that an error is to an HTTP client; what nobody foresaw is logged and masked."""
    match error:
        case Problem():
            return error
        case FileError():
            place = {"line": error.line, "column": error.column, "expected": error.wanted, "got": error.found}
            return Problem(422, ErrorCode.BAD_FILE, error.said, beside=place)
        case Broken():
            return Problem(422, ErrorCode.BAD_FILE, error.said, beside={"line": error.seq, "column": 1})
        case NotExpressible():
            return Problem(409, ErrorCode.NOT_EXPRESSIBLE, error.said)
        case RuleError():
            status = _STATUS.get(error.breach, 400)
            return Problem(status, error.breach.name, error.said)
        case Unavailable():
            logger.error("%s", error)
            return Problem(503, ErrorCode.UNAVAILABLE, UNAVAILABLE)
        case RateLimited():
            return Problem(429, error.code, error.said, beside={"retryAfter": error.retry_after})
        case ApiError():
            return Problem(status_of(error.code), error.code, error.said)
        case ClientDisconnect():  # nobody is told
            return Problem(400, ErrorCode.BAD_REQUEST, "the request was cut off")
        case HTTPException():
            return Problem(error.status_code, ErrorCode.BAD_REQUEST, Foreign(error.detail))
        case _:
            logger.error("unforeseen error", exc_info=error)
            return Problem(500, ErrorCode.INTERNAL, INTERNAL)


async def answer_problem(request: HTTPConnection, error: Exception) -> Response:
    """The response that tells an HTTP client what is wrong, in its language."""
    problem, language = problem_of(error), language_of(request.headers)
    told_codes[str(problem.code)] += 1
    detail = tell(language, problem.code, problem.said)
    body: dict[str, object] = {
        "title": HTTPStatus(problem.status).phrase,
        "status": problem.status,
        "code": problem.code,
        "detail": detail,
    }
    for name, value in problem.beside.items():
        body[name] = in_language(language, value) if isinstance(value, Said) else value
    headers = {"content-language": language.value, "vary": "accept-language"}
    if problem.status == 503:
        headers["retry-after"] = str(limits.RETRY_AFTER)
    if isinstance(error, RateLimited):
        headers["retry-after"] = str(error.retry_after)
    if problem.status == 401:
        headers["www-authenticate"] = "Bearer"
    if isinstance(error, HTTPException) and error.headers:
        headers |= error.headers
    return Response(msgspec.json.encode(body), problem.status, headers, media_type="application/problem+json")
