"""What is told to people: an English template and what stands in it, so that it can be said in other languages too."""


class Said:
    """A sentence, or a part of one, as it is told: its template names it in every language, its text is English.

    What fills the template is a number or a text that is the same in every language, a word of the game (an enum's
    member: white, gammon), or a part that is said itself.

    >>> str(Said("it is {side}'s turn", side="white"))
    "it is white's turn"
    """

    __slots__ = ("fields", "template")

    def __init__(self, template: str, /, **fields: object) -> None:
        self.template = template
        self.fields = fields

    def __str__(self) -> str:
        return self.template.format_map(self.fields) if self.fields else self.template

    def __repr__(self) -> str:
        return repr(str(self))


class Foreign(Said):
    """A text that is not ours, a library's: English only, and whatever it happens to be."""


def said(text: str | Said, fields: dict[str, object]) -> Said:
    """What an error is given to say: a template with its fields, or what has been put together already."""
    return text if isinstance(text, Said) else Said(text, **fields)
