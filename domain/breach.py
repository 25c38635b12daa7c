"""Why the answer is no: a closed list of codes, and the exception that carries one."""

from enum import StrEnum

from domain.board import Play
from domain.words import Said, said


class Breach(StrEnum):
    """Every reason for which a well-formed command is refused. Codes are never renamed or reused."""

    # the match
    MATCH_NOT_FOUND = "match_not_found"
    STALE_VERSION = "stale_version"
    KEY_REUSED = "key_reused"
    CONTENDED = "contended"
    INVALID_SETTINGS = "invalid_settings"
    INVALID_POSITION = "invalid_position"
    INVALID_ENTROPY = "invalid_entropy"
    UNPROVEN_DICE = "unproven_dice"
    # time
    TIME_IS_UP = "time_is_up"
    TIME_IS_LEFT = "time_is_left"
    CLOCK_RUNS = "clock_runs"
    OPPONENT_PRESENT = "opponent_present"
    # the seats
    ALREADY_SEATED = "already_seated"
    SEATS_TAKEN = "seats_taken"
    NOT_SEATED = "not_seated"
    NOT_INVITED = "not_invited"
    OTHER_APP = "other_app"
    CODE_NEEDED = "code_needed"
    CODE_UNKNOWN = "code_unknown"
    CODE_EXPIRED = "code_expired"
    PLAYER_NOT_FOUND = "player_not_found"
    SEEK_NOT_FOUND = "seek_not_found"
    TOO_MANY_SEEKS = "too_many_seeks"
    TOO_MANY_MATCHES = "too_many_matches"
    REMATCH_EXPIRED = "rematch_expired"
    # whose turn, and for what
    NOT_STARTED = "not_started"
    STARTED_ALREADY = "started_already"
    MATCH_CANCELLED = "match_cancelled"
    MATCH_OVER = "match_over"
    MATCH_NOT_OVER = "match_not_over"
    NOT_YOUR_TURN = "not_your_turn"
    ROLL_FIRST = "roll_first"
    ALREADY_ROLLED = "already_rolled"
    ANSWER_FIRST = "answer_first"
    NOTHING_TO_ANSWER = "nothing_to_answer"
    # the cube and resigning
    NO_CUBE = "no_cube"
    CRAWFORD_GAME = "crawford_game"
    CUBE_NOT_YOURS = "cube_not_yours"
    CUBE_AT_LIMIT = "cube_at_limit"
    STAKE_REFUSED_BEFORE = "stake_refused_before"
    # the play
    MALFORMED_NOTATION = "malformed_notation"
    NO_CHECKER = "no_checker"
    MUST_ENTER = "must_enter"
    WRONG_DIRECTION = "wrong_direction"
    NOT_THAT_DIE = "not_that_die"
    POINT_BLOCKED = "point_blocked"
    CANNOT_BEAR_OFF = "cannot_bear_off"
    HIGHER_POINT_FIRST = "higher_point_first"
    BOTH_DICE_PLAYABLE = "both_dice_playable"
    MORE_DICE_PLAYABLE = "more_dice_playable"
    LARGER_DIE_FIRST = "larger_die_first"
    AMBIGUOUS_PLAY = "ambiguous_play"


class RuleError(Exception):
    """A command is against the rules, and nothing has happened: code, the rule in words, the legal plays of a play."""

    def __init__(self, breach: Breach, text: str | Said, /, *, legal_plays: tuple[Play, ...] = (), **more: object):
        super().__init__(breach, text)
        self.breach = breach
        self.said = said(text, more)
        self.legal_plays = legal_plays

    def __str__(self) -> str:
        return self.message

    @property
    def message(self) -> str:
        """The rule in words, in English."""
        return str(self.said)
