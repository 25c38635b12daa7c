"""What becomes of commands: counted, by kind and by what they have come to, for who looks after the service."""

import logging
import time
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable
from typing import Any

from graphql import GraphQLResolveInfo

from infra import traces
from infra.histogram import Histogram
from service.errors import ApiError, logger
from service.logs import Subject, subject
from service.views import Happened, Refusal

Resolve = Callable[..., Awaitable[Any]]


class Commands:
    """What has become of the commands of this process. A command is a mutation, by its name."""

    def __init__(self) -> None:
        self.results = Counter[tuple[str, str]]()
        """How many of each kind have happened, were refused by a rule, were invalid, failed here, or were abandoned."""
        self.refusals = Counter[str]()
        """How often each rule was the reason."""
        self.seconds: defaultdict[str, Histogram] = defaultdict(Histogram)
        """How long answering took, by kind, without the request around it."""


commands = Commands()


def observed(kind: str, resolve: Resolve) -> Resolve:
    """The resolver of a mutation, which notes what becomes of it."""
    seconds = commands.seconds[kind]
    for each in ("happened", "refused", "invalid", "failed"):
        commands.results[kind, each] = 0  # so that the first of them is an increase

    async def resolved(source: Any, info: GraphQLResolveInfo[Any], **arguments: Any) -> Any:
        began = time.perf_counter()
        named, context = arguments.get("matchId"), info.context
        match = named[:40] if named else None
        result, answer = "abandoned", None
        with traces.within(f"mutation {kind}", context.traceparent, match=match, player=context.viewer) as span:
            trace = traces.current()
            subject.set(Subject(match, context.viewer, trace and trace[3:35]))
            try:
                answer = await resolve(source, info, **arguments)
                result = "happened"
                if isinstance(answer, Refusal):
                    result = "refused"
                    commands.refusals[answer.error.breach.name] += 1
                return answer
            except ApiError:
                result = "invalid"
                raise
            except Exception:
                result = "failed"
                raise
            finally:
                took = time.perf_counter() - began
                seconds.observe(took)
                commands.results[kind, result] += 1
                code = answer.error.breach.name if isinstance(answer, Refusal) else None
                traces.note(span, failed=result == "failed", result=result, code=code)
                if logger.isEnabledFor(logging.INFO):
                    _log(kind, result, took, answer)

    return resolved


def _log(kind: str, result: str, took: float, answer: Any) -> None:
    """A line for a command: what it was, and what it has come to."""
    extra: dict[str, Any] = {"more": {"command": kind, "result": result, "ms": round(took * 1000, 2)}}
    if isinstance(answer, Happened):
        extra |= {"match": answer.match.id, "seq": answer.match.version}
    elif isinstance(answer, Refusal):
        extra["more"]["code"] = answer.error.breach.name
        extra["seq"] = answer.current and answer.current.version
    logger.info("%s: %s", kind, result, extra=extra)
