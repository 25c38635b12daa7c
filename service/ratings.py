"""Keeping ratings up with the log: soon after a rated match has ended here, and by looking for those of elsewhere."""

import asyncio
from contextlib import suppress

from infra.ratings import Ratings
from infra.store import Unavailable
from service.errors import logger

LOOK = 1.0
"""Seconds between two looks at most."""

PAUSE = 0.05
"""Seconds between two looks at least, so that matches which end together are rated together."""


class Rater:
    """Rates what has ended, for ever; every process has one, and each match is rated once."""

    def __init__(self, ratings: Ratings) -> None:
        self._ratings = ratings
        self._rung = asyncio.Event()
        self._following: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Rate from now on."""
        self._following = asyncio.create_task(self._follow())

    async def close(self) -> None:
        """Rate no more; what is under way is finished, or done again by another."""
        if self._following is not None:
            self._following.cancel()
            await asyncio.wait([self._following])

    def ring(self) -> None:
        """A rated match has ended."""
        self._rung.set()

    async def _follow(self) -> None:
        waiting = False
        while True:
            self._rung.clear()
            try:
                while await self._ratings.advance():
                    await asyncio.sleep(0)
                waiting = False
            except Unavailable as error:
                if not waiting:
                    logger.error("ratings wait: %s", error)
                waiting = True
            except Exception as error:
                logger.error("unforeseen error of the ratings", exc_info=error)
            await asyncio.sleep(PAUSE)
            with suppress(TimeoutError):
                async with asyncio.timeout(LOOK - PAUSE):  # Python 3.11's wait_for may lose a cancellation
                    await self._rung.wait()
