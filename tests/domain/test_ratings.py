"""Ratings: RULES.md section 7, by its worked example, an independent implementation, and what must hold always."""

from decimal import Decimal, getcontext

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from domain.ratings import COUNTED, DAY, Standing, changes, counts, upset

getcontext().prec = 50

SETTLED = 400

standings = st.builds(
    Standing,
    rating=st.integers(500_000_000, 2_500_000_000).map(lambda millionths: millionths / 1_000_000),
    experience=st.integers(0, 1_000),
)
lengths = st.integers(1, 99)


def by_the_book(winner: Standing, loser: Standing, length: int) -> tuple[Decimal, Decimal]:
    """The formula of FIBS as it is written, in fifty digits."""
    first, second, n = Decimal(winner.rating), Decimal(loser.rating), Decimal(length)
    p_upset = 1 / (Decimal(10) ** (abs(first - second) * n.sqrt() / 2000) + 1)
    underdog_won = first < second
    p = 1 - p_upset if underdog_won else p_upset

    def change(experience: int) -> Decimal:
        k = 5 - Decimal(experience) / 100
        return 4 * (k if k > 1 else 1) * n.sqrt() * p

    return change(winner.experience), -change(loser.experience)


def test_the_worked_example() -> None:
    strong, weak = Standing(1600, SETTLED), Standing(1500, SETTLED)
    assert upset(100, 7) == pytest.approx(0.424433, abs=5e-7)
    assert changes(strong, weak, 7) == pytest.approx((4.4918, -4.4918), abs=5e-5)
    assert changes(weak, strong, 7) == pytest.approx((6.0912, -6.0912), abs=5e-5)


@pytest.mark.parametrize(
    ("winner", "loser", "length", "gain", "loss"),
    [
        (Standing(), Standing(), 1, 10.0, -10.0),
        (Standing(), Standing(), 5, 22.36068, -22.36068),
        (Standing(1500, SETTLED), Standing(1500, SETTLED), 9, 6.0, -6.0),
        (Standing(1500, 100), Standing(1500, 300), 4, 16.0, -8.0),
        (Standing(1500, 399), Standing(1500, 5_000), 1, 2.02, -2.0),
        (Standing(1000, SETTLED), Standing(2000, SETTLED), 4, 7.272727, -7.272727),
        (Standing(2000, SETTLED), Standing(1000, SETTLED), 4, 0.727273, -0.727273),
    ],
)
def test_changes_by_hand(winner: Standing, loser: Standing, length: int, gain: float, loss: float) -> None:
    """At 1000 points and 4 to win the exponent is 1: the chances are 10 to 1."""
    assert changes(winner, loser, length) == (gain, loss)


def test_how_fast_a_rating_changes() -> None:
    factors = [Standing(experience=experience).factor for experience in (0, 100, 250, 399, 400, 401, 10_000)]
    assert factors == pytest.approx([5, 4, 2.5, 1.01, 1, 1, 1])
    assert [Standing(experience=experience).provisional for experience in (0, 399, 400)] == [True, True, False]


def test_a_standing_after_matches() -> None:
    first = Standing().after(10.0000004, 7, won=True)
    assert first == Standing(1510, 7, 1, 1)
    assert first.after(-0.25, 3, won=False) == Standing(1509.75, 10, 2, 1)


@given(standings, standings, lengths)
def test_the_formula_is_that_of_the_book(winner: Standing, loser: Standing, length: int) -> None:
    told = by_the_book(winner, loser, length)
    for ours, theirs in zip(changes(winner, loser, length), told, strict=True):
        assert abs(Decimal(ours) - theirs) < Decimal("0.00000051")


@given(standings, standings, lengths)
def test_what_one_wins_the_other_loses_if_both_are_as_experienced(one: Standing, two: Standing, length: int) -> None:
    gain, loss = changes(one, Standing(two.rating, one.experience), length)
    assert gain == -loss
    assert gain >= 0


@given(standings, standings, lengths)
def test_the_favourite_gains_less_than_the_underdog_would(one: Standing, two: Standing, length: int) -> None:
    two = Standing(two.rating, one.experience)
    assume(one.rating > two.rating)
    assert changes(one, two, length)[0] <= changes(two, one, length)[0]


@given(standings, standings, lengths)
def test_both_outcomes_together_are_the_whole_stake(one: Standing, two: Standing, length: int) -> None:
    """What a player gains by winning and loses by losing do not depend on the opponent, but together."""
    won, lost = changes(one, two, length)[0], changes(two, one, length)[1]
    assert won - lost == pytest.approx(4 * one.factor * length**0.5, abs=2e-6)


@given(standings, standings, lengths, st.integers(1, 500))
def test_experience_never_makes_a_rating_change_faster(
    winner: Standing, loser: Standing, length: int, more: int
) -> None:
    veteran = Standing(winner.rating, winner.experience + more)
    assert changes(veteran, loser, length)[0] <= changes(winner, loser, length)[0]
    assert changes(veteran, loser, length)[1] == changes(winner, loser, length)[1]


@given(st.lists(st.integers(0, 3 * DAY)))
def test_of_the_matches_of_two_players_three_count_within_a_day(ends: list[int]) -> None:
    """In whatever order they are heard of: clocks of processes may differ."""
    counted: list[int] = []
    for end in ends:
        if counts(end, counted):
            counted.append(end)
    ordered = sorted(counted)
    if ends == sorted(ends):
        for first, fourth in zip(ordered, ordered[COUNTED:], strict=False):
            assert fourth - first >= DAY
    for end in set(ends) - set(counted):
        assert sum(end - DAY < other for other in counted) >= COUNTED


def test_a_match_counts_again_a_day_after_the_first_of_three() -> None:
    met = [0, 1, DAY // 2]
    assert not counts(DAY - 1, met)
    assert counts(DAY, met)
    assert not counts(DAY, [1, 2, DAY // 2])
