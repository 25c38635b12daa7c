"""What becomes of commands: counted, by kind and by what they have come to, for who looks after the service."""

import time
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable
from typing import Any

from graphql import GraphQLResolveInfo

from infra.histogram import Histogram
from service.errors import ApiError
from service.views import Refusal

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

    async def resolved(source: Any, info: GraphQLResolveInfo[Any], **arguments: Any) -> Any:
        began = time.perf_counter()
        result = "abandoned"
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
            seconds.observe(time.perf_counter() - began)
            commands.results[kind, result] += 1

    return resolved
