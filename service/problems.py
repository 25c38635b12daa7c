"""What is wrong with a plain HTTP request: `application/problem+json` (RFC 9457), with a code from the closed lists."""

from http import HTTPStatus

import msgspec
from graphql import GraphQLError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from domain.breach import Breach, RuleError
from domain.matchfile import FileError, NotExpressible
from infra.log import Broken
from infra.store import Unavailable
from service import limits
from service.errors import ErrorCode, logger, status_of
from service.rates import RateLimited


class Problem(Exception):
    """A request that is not served: status, code, the reason in words, and what else there is to say."""

    def __init__(self, status: int, code: str, detail: str, **more: object) -> None:
        super().__init__(detail)
        self.status, self.code, self.detail, self.more = status, code, detail, more


FORESEEN = (Problem, FileError, Broken, NotExpressible, RuleError, Unavailable, GraphQLError, HTTPException)
"""What `answer_problem` knows the words for; anything else is an error of ours."""


def problem_of(error: Exception) -> Problem:
    """The problem that an error is to an HTTP client; what nobody foresaw is logged and masked."""
    match error:
        case Problem():
            return error
        case FileError():
            place = {"line": error.line, "column": error.column, "expected": error.expected, "got": error.got}
            return Problem(422, ErrorCode.BAD_FILE, str(error), **place)
        case Broken():
            return Problem(422, ErrorCode.BAD_FILE, str(error), line=error.seq, column=1)
        case NotExpressible():
            return Problem(409, ErrorCode.NOT_EXPRESSIBLE, error.reason)
        case RuleError():
            status = 404 if error.breach is Breach.MATCH_NOT_FOUND else 400
            return Problem(status, error.breach.name, error.message)
        case Unavailable():
            logger.error("%s", error)
            return Problem(503, ErrorCode.UNAVAILABLE, "the database cannot be used now: try again")
        case RateLimited():
            return Problem(429, ErrorCode.RATE_LIMITED, error.message, retryAfter=error.retry_after)
        case GraphQLError():
            code = str((error.extensions or {}).get("code", ErrorCode.BAD_REQUEST))
            return Problem(status_of(code), code, error.message)
        case HTTPException():
            return Problem(error.status_code, ErrorCode.BAD_REQUEST, error.detail)
        case _:
            logger.error("unforeseen error", exc_info=error)
            return Problem(500, ErrorCode.INTERNAL, "something went wrong here, and it has been noted")


async def answer_problem(request: Request, error: Exception) -> Response:
    """The response that tells an HTTP client what is wrong."""
    problem = problem_of(error)
    title = HTTPStatus(problem.status).phrase
    body = {"title": title, "status": problem.status, "code": problem.code, "detail": problem.detail, **problem.more}
    headers = {"retry-after": str(limits.RETRY_AFTER)} if problem.status == 503 else {}
    if isinstance(error, RateLimited):
        headers["retry-after"] = str(error.retry_after)
    if problem.status == 401:
        headers["www-authenticate"] = "Bearer"
    if isinstance(error, HTTPException) and error.headers:
        headers |= error.headers
    return Response(msgspec.json.encode(body), problem.status, headers, media_type="application/problem+json")
