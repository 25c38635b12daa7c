"""Clocks: RULES.md section 5 (simple delay), by hand-computed times; and how a match ends without being played out."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain.board import Color, Dice
from domain.breach import Breach, RuleError
from domain.commands import (
    Accept,
    Cancel,
    Claim,
    Command,
    Create,
    Double,
    Join,
    Move,
    Refuse,
    Resign,
    Resume,
    Roll,
    TimeOut,
)
from domain.events import (
    Cancelled,
    Clock,
    Created,
    Event,
    Joined,
    Resumed,
    Sandbox,
    Settings,
    Stake,
    TimedOut,
    Visibility,
)
from domain.match import SECOND, CalledOff, End, Match, Over
from domain.notation import parse_play
from domain.rules import Action, allowed_actions, check, decide, evolve

WHITE, BLACK = Color.WHITE, Color.BLACK
TOURNAMENT = Clock(reserve=840, delay=12)
"""Two minutes a point of a match to 7, and 12 seconds a turn: the example of RULES.md."""


class Table:
    """A match under a clock; commands come at seconds since its start."""

    def __init__(self, clock: Clock | None = TOURNAMENT, length: int | None = 7, **settings: object) -> None:
        self.match: Match | None = None
        self.log: list[tuple[Event, int]] = []
        agreed = Settings(length=length, clock=clock, **settings)  # type: ignore[arg-type]
        self.do(0, Create(match="m", settings=agreed, color=WHITE, player="ann"), Join(player="bob"))

    def do(self, second: float, *commands: Command) -> "Table":
        at = round(second * SECOND)
        for command in commands:
            for event in decide(self.match, command, at):
                self.match = evolve(self.match, event, at)
                self.log.append((event, at))
        return self

    def refused(self, second: float, command: Command) -> Breach:
        with pytest.raises(RuleError) as refusal:
            self.do(second, command)
        return refusal.value.breach

    @property
    def now(self) -> Match:
        assert self.match is not None
        return self.match

    @property
    def left(self) -> tuple[float, float]:
        """What is left of white's and of black's reserve, in seconds."""
        assert self.now.clocks is not None
        return self.now.clocks.white / SECOND, self.now.clocks.black / SECOND

    def check(self) -> None:
        """The log is legal as it stands."""
        match: Match | None = None
        for event, at in self.log:
            match = check(match, event, at)
        assert match == self.match


def opened(table: Table) -> Table:
    """White has opened with 31 after two seconds."""
    return table.do(2, Roll(by=None, dice=Dice(3, 1)))


def move(by: Color, play: str) -> Move:
    return Move(by=by, play=parse_play(play))


def roll(by: Color, first: int, second: int) -> Roll:
    return Roll(by=by, dice=Dice(first, second))


def test_no_clock_runs_before_the_opening_roll() -> None:
    table = Table()
    assert table.now.deadline is None
    opened(table.do(1))
    assert table.left == (840, 840)
    assert table.now.deadline == (2 + 12 + 840) * SECOND


def test_the_delay_runs_first_and_what_is_not_used_of_it_is_lost() -> None:
    table = opened(Table())
    table.do(7, move(WHITE, "8/5 6/5"))  # 5 seconds: within the delay
    assert table.left == (840, 840)
    table.do(27, roll(BLACK, 6, 4))  # the roll is of the same turn, and stops no clock
    assert table.left == (840, 840)
    table.do(29.5, move(BLACK, "24/14"))  # 22.5 seconds: 10.5 beyond the delay
    assert table.left == (840, 829.5)
    assert table.now.deadline == (29.5 + 12 + 840) * SECOND
    table.check()


def test_cube_decisions_run_on_the_clock_too() -> None:
    table = opened(Table()).do(3, move(WHITE, "8/5 6/5"))
    table.do(23, Double(by=BLACK))  # 20 seconds: 8 of the reserve
    assert table.left == (840, 832)
    table.do(53, Accept(by=WHITE))  # 30 seconds: 18 of the reserve
    assert table.left == (822, 832)
    table.do(60, roll(BLACK, 6, 4), move(BLACK, "24/14"))  # 7 of a new delay
    assert table.left == (822, 832)
    table.check()


def test_a_resignation_stops_the_clock_of_who_waits_for_its_answer() -> None:
    table = opened(Table()).do(20, Resign(by=WHITE, stake=Stake.SINGLE))  # 18 seconds: 6
    assert table.left == (834, 840)
    table.do(40, Refuse(by=BLACK))  # 20 seconds: 8
    assert table.left == (834, 832)
    table.do(41, Resign(by=BLACK, stake=Stake.SINGLE))  # white must answer, and was on turn anyway
    table.do(60, Refuse(by=WHITE))
    assert table.left == (834, 832)
    table.do(62, move(WHITE, "8/5 6/5"))  # 22 seconds since black refused: 10
    assert table.left == (824, 832)
    table.check()


def test_a_dance_takes_no_time() -> None:
    closed_out = "XGID=aBBBBBBC-----------ddcc---:0:0:-1:00:0:0:0:7:6"
    table = Table(sandbox=Sandbox(start=closed_out))
    table.do(9, roll(BLACK, 6, 5))
    assert table.now.turn is WHITE
    assert table.now.deadline == (9 + 12 + 840) * SECOND
    table.check()


def test_a_player_without_time_loses_the_match_once_it_is_noticed() -> None:
    table = opened(Table())
    deadline = 2 + 12 + 840
    assert table.refused(deadline - 0.001, TimeOut(by=WHITE)) is Breach.TIME_IS_LEFT
    assert table.refused(deadline, TimeOut(by=BLACK)) is Breach.TIME_IS_LEFT
    assert table.refused(deadline, move(WHITE, "8/5 6/5")) is Breach.TIME_IS_UP
    assert table.refused(deadline, Resign(by=BLACK, stake=Stake.MATCH)) is Breach.TIME_IS_UP
    table.do(deadline + 3, TimeOut(by=WHITE))
    assert table.now.phase == Over(BLACK)
    assert (table.now.score(BLACK), table.now.score(WHITE)) == (7, 0)
    [result] = table.now.results
    assert (result.winner, result.points, result.stake, result.end) == (BLACK, 7, Stake.MATCH, End.TIME_OUT)
    assert table.left == (0, 840)
    assert table.now.deadline is None
    assert table.refused(deadline + 4, TimeOut(by=WHITE)) is Breach.TIME_IS_LEFT
    table.check()


def test_in_a_money_game_time_costs_what_can_still_be_lost() -> None:
    table = opened(Table(length=None, clock=Clock(reserve=0, delay=60)))
    table.do(62, TimeOut(by=WHITE))
    assert table.now.points == (0, 3)


def test_the_reserve_is_for_the_whole_match() -> None:
    table = opened(Table()).do(114, Resign(by=WHITE, stake=Stake.BACKGAMMON))  # 112 seconds: 100
    assert table.left == (740, 840)
    assert table.now.deadline is None
    table.do(200, Roll(by=None, dice=Dice(3, 1)))
    assert table.left == (740, 840)
    assert table.now.deadline == (200 + 12 + 740) * SECOND


def test_days_a_turn_are_a_delay_without_a_reserve() -> None:
    day = 24 * 3600
    table = opened(Table(clock=Clock(reserve=0, delay=3 * day)))
    table.do(2 * day, move(WHITE, "8/5 6/5"))
    assert table.now.deadline == (2 + 3) * day * SECOND
    assert table.refused(5 * day, roll(BLACK, 6, 4)) is Breach.TIME_IS_UP


def test_an_outage_gives_its_time_back() -> None:
    table = opened(Table())
    deadline = table.now.deadline
    assert deadline is not None
    table.do(500, Resume(lost=300 * SECOND))
    assert table.now.deadline == deadline + 300 * SECOND
    table.do(502, move(WHITE, "8/5 6/5"))  # 200 seconds of its own: 188
    assert table.left == (652, 840)
    table.check()


def test_an_outage_gives_its_time_back_also_after_the_deadline() -> None:
    table = opened(Table(clock=Clock(reserve=0, delay=10)))
    assert table.refused(100, move(WHITE, "8/5 6/5")) is Breach.TIME_IS_UP
    table.do(100, Resume(lost=95 * SECOND)).do(101, move(WHITE, "8/5 6/5"))
    table.check()


@pytest.mark.parametrize("lost", [-1, 0, 98 * SECOND + 1])
def test_an_outage_gives_back_no_more_than_the_clock_has_taken(lost: int) -> None:
    table = opened(Table())
    assert table.refused(100, Resume(lost=lost)) is Breach.CLOCK_RUNS


@given(st.lists(st.tuples(st.integers(0, 40_000), st.booleans()), max_size=25))
def test_reserves_fall_by_what_each_turn_took_beyond_its_delay(turns: list[tuple[int, bool]]) -> None:
    """Against a plain sum, in milliseconds: cubes turned and dances are turns like others."""
    table, now, spent = opened(Table(clock=Clock(reserve=3600, delay=12))), 2_000, {WHITE: 0, BLACK: 0}
    for took, doubles in turns:
        color = table.now.to_act
        if color is None:
            break
        now += took
        spent[color] += max(0, took - 12_000)
        if table.now.dice is not None:
            table.do(now / 1000, move(WHITE, "8/5 6/5")) if not table.now.last_play else table.do(
                now / 1000, Resign(by=color, stake=Stake.MATCH)
            )
        elif doubles and Action.DOUBLE in allowed_actions(table.now, color):
            table.do(now / 1000, Double(by=color))
        elif Action.ACCEPT in allowed_actions(table.now, color):
            table.do(now / 1000, Accept(by=color))
        else:
            table.do(now / 1000, Resign(by=color, stake=Stake.MATCH))
        assert table.left == (3600 - spent[WHITE] / 1000, 3600 - spent[BLACK] / 1000)
    table.check()


CLOCKS = [Clock(reserve=-1, delay=5), Clock(reserve=86_401, delay=5), Clock(reserve=5, delay=-1)]
CLOCKS += [Clock(reserve=0, delay=30 * 86_400 + 1), Clock(reserve=0, delay=0)]


@pytest.mark.parametrize("clock", CLOCKS)
def test_a_clock_that_cannot_be_played_is_refused(clock: Clock) -> None:
    with pytest.raises(RuleError, match="clock") as refusal:
        Table(clock=clock)
    assert refusal.value.breach is Breach.INVALID_SETTINGS


# ends without being played out


def test_a_match_without_a_clock_can_be_claimed_from_who_stays_away() -> None:
    table = opened(Table(clock=None)).do(5, move(WHITE, "8/5 6/5"))
    assert table.refused(900, Claim(by=BLACK, absent=895)) is Breach.NOT_YOUR_TURN
    table.do(900, Claim(by=WHITE, absent=895))
    assert table.now.phase == Over(WHITE)
    assert [result.end for result in table.now.results] == [End.ABSENCE]
    assert table.refused(901, Claim(by=WHITE, absent=895)) is Breach.MATCH_OVER
    table.check()


def test_or_settled_without_a_winner() -> None:
    table = opened(Table(clock=None)).do(5, move(WHITE, "8/5 6/5"))
    table.do(900, Cancel(by=WHITE, absent=895))
    assert table.now.phase == CalledOff()
    assert table.now.winner is None
    for command in (roll(BLACK, 3, 1), Resign(by=BLACK, stake=Stake.MATCH), Join(player="eve"), Double(by=BLACK)):
        assert table.refused(901, command) is Breach.MATCH_CANCELLED
    assert table.refused(901, Cancel(by=WHITE)) is Breach.MATCH_CANCELLED
    table.check()


def test_a_clock_deals_with_absence_itself() -> None:
    table = opened(Table())
    for command in (Claim(by=BLACK, absent=600), Cancel(by=BLACK, absent=600)):
        assert table.refused(600, command) is Breach.CLOCK_RUNS


WAITING: list[Event] = [
    Created(match="m", settings=Settings(length=7), color=WHITE, rules=1),
    Joined(color=WHITE, player="ann", app="wood"),
]


def waiting(**created: object) -> Match:
    settings = created.pop("settings", Settings(length=7))
    match = evolve(None, Created(match="m", settings=settings, color=WHITE, rules=1, **created))  # type: ignore[arg-type]
    return evolve(match, WAITING[1])


def test_who_opened_a_match_may_cancel_it_until_it_begins() -> None:
    assert decide(waiting(), Cancel(by=WHITE)) == (Cancelled(by=WHITE),)
    begun = evolve(waiting(), Joined(color=BLACK, player="bob"))
    with pytest.raises(RuleError) as refusal:
        decide(begun, Cancel(by=WHITE))
    assert refusal.value.breach is Breach.STARTED_ALREADY


def test_a_private_match_is_for_the_player_it_names() -> None:
    match = waiting(settings=Settings(length=7, visibility=Visibility.PRIVATE), invited="bob")
    with pytest.raises(RuleError) as refusal:
        decide(match, Join(player="eve"))
    assert refusal.value.breach is Breach.NOT_INVITED
    assert decide(match, Join(player="bob")) == (Joined(color=BLACK, player="bob"),)
    assert decide(match, Cancel(by=None)) == (Cancelled(by=None),)


def test_a_rated_match_is_between_players_of_one_app() -> None:
    match = waiting(settings=Settings(length=7, rated=True))
    for app in ("", "stone"):
        with pytest.raises(RuleError) as refusal:
            decide(match, Join(player="bob", app=app))
        assert refusal.value.breach is Breach.OTHER_APP
    assert decide(match, Join(player="bob", app="wood")) == (Joined(color=BLACK, player="bob", app="wood"),)


@pytest.mark.parametrize(
    "settings", [Settings(length=None, rated=True), Settings(length=5, rated=True, sandbox=Sandbox())]
)
def test_money_games_and_sandboxes_are_not_rated(settings: Settings) -> None:
    with pytest.raises(RuleError, match="rated"):
        decide(None, Create(match="m", settings=settings, color=WHITE, player="ann"))


def test_a_forged_end_by_time_is_found_out() -> None:
    table = opened(Table())
    for second, event in ((100, TimedOut(by=WHITE)), (5_000, TimedOut(by=BLACK)), (100, Resumed(lost=99 * SECOND))):
        with pytest.raises(RuleError):
            check(table.now, event, second * SECOND)
