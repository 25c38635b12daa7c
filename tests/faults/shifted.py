"""`videau` in a process whose clock is some seconds off: `python -m tests.faults.shifted SECONDS serve …`.

It stands for a machine with a wrong clock, which a test cannot have: `datetime.now` and `time.time` of this one process
are replaced before anything of the service is imported, so that all its Python sees that time.
"""

import datetime
import sys
import time


def shift(seconds: float) -> None:
    """From now on it is that much later in this process."""
    real, real_time = datetime.datetime, time.time

    class Kind(type):
        def __instancecheck__(cls, instance: object) -> bool:
            return isinstance(instance, real)

    class Shifted(real, metaclass=Kind):  # type: ignore[misc, valid-type]
        @classmethod
        def now(cls, tz: datetime.tzinfo | None = None) -> datetime.datetime:
            return real.now(tz) + datetime.timedelta(seconds=seconds)

    datetime.datetime = Shifted  # type: ignore[misc]
    time.time = lambda: real_time() + seconds


if __name__ == "__main__":
    shift(float(sys.argv.pop(1)))
    from service.cli import main

    main()
