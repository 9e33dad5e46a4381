"""Attribution of phrases: quotations, reported speech and negation.

Heuristics over English word order, limited to the text near a phrase. All text is in lower case.
"""

import re

# Bounds of what is read around a phrase, so that the work grows with the text and not faster. They
# cover the longest English clauses of counsellors; what is further away belongs to another clause.
_QUOTE_CHARS = 600
_BEFORE_CHARS = 80
_AFTER_CHARS = 120
_LIST_CHARS = 120
_CONTEXT_CHARS = 300
_SCOPE_WORDS = 12
_MOST_QUOTATIONS = 1_000  # a turn of a policy may consist of quotation marks
_QUOTED = " quotedwords"  # one word that no pattern knows, so that the sentence keeps its shape
_STOP = re.compile(r"[.!?\n]")

_QUOTATION = re.compile(
    rf'"([^"\n]{{1,{_QUOTE_CHARS}}})"'
    rf"|(?<!\w)'(?=[^\s'])((?:[^'\n]|(?<=\w)'(?=\w)){{1,{_QUOTE_CHARS}}})'(?!\w)"
)
# Near a quotation: it is somebody's words, a thought or a work, and no emphasis.
_SPEECH = re.compile(
    r"\b(?:sa(?:y|ys|id|ying)|t(?:ell|ells|old|elling)|wr(?:ite|ites|ote|iting)|written"
    r"|hear[sd]?|hearing|reads?"
    r"|shout(?:s|ed)?|yell(?:s|ed)?|whisper(?:s|ed)?|call(?:s|ed)|think(?:s|ing)?|thoughts?"
    r"|voices?|words?|phrases?"
    r"|lines?|lyrics?|message[sd]?|text(?:s|ed)|comment(?:s|ed)?|sentences?|mean(?:s|t)?|asks?"
    r"|asked|answers?"
    r"|answered|repl(?:y|ies|ied)|be "
    r"(?:your|the|him|her)|mantra|belief|title|song|book|film|story|character|villain)\b"
)
# The therapist's own statement, or words suggested to the client: the quoted words are then meant.
_MEANT = re.compile(
    r"\b(?:i(?:'d| would|'m| am|'ll| will)? (?:also )?(?:say|saying|tell|telling|repeat|mean)(?: "
    r"it)?(?: to)?(?: you)?"
    r"|(?:tell|say to|telling|remind) yourself|repeat after me|say out loud|my "
    r"(?:advice|answer|motto)(?: is)?)[\s,:]*$"
)
# The therapist makes the words of others their own.
_ENDORSES = re.compile(
    r"\b(?<!n't )(?<!not )(?:i (?:fully |totally |completely |quite |also |do )?agree|i think so "
    r"too|so do i|me too"
    r"|(?:he|she|it|they|that|this|your \w+|the voices?)(?:'s| is|'re| are| was| were) "
    r"(?:absolutely |completely |quite |so |probably |perfectly )?right"
    r"|(?:good|excellent|sound|wise|great) (?:idea|advice|point|plan)"
    r"|(?:listen to|follow|trust) (?:him|her|them|it|that)|do (?:as|what) (?:he|she|they|it) "
    r"(?:say|said))"
)

_NEGATOR = re.compile(
    r"\b(?:not|never|no|nobody|none|neither|nor|without|cannot|\w+n't|(?:do|does|did|ca|wo"
    r"|should|would|is)nt"
    r"|avoid(?:ing)?|refuse|against|rather than|instead of|hardly|unable|wrong to|dangerous "
    r"to|unsafe to)\b"
)
# Invitations that look like negations: "no harm in", "why not", "don't hesitate to".
_NO_NEGATION = re.compile(
    r"\b(?:why (?:not|don't)|(?:don't|do not|never) (?:hesitate|be "
    r"(?:afraid|shy|scared)|worry|forget|mind|wait"
    r"|feel (?:bad|guilty)|listen|you (?:think|want|feel|believe))"
    r"|no (?:harm|problem|shame|doubt|matter|longer|wonder|reason not|reason why)|nothing "
    r"(?:wrong|is wrong|bad)"
    r"|not (?:only|sure|to mention|a (?:problem|bad idea|doctor))|if not|or not"
    r"|(?:won't|can't|couldn't|wouldn't|doesn't|don't) (?:hurt|harm|matter|see (?:why|anything|a "
    r"problem|any))"
    r"|(?:isn't|wouldn't|aren't|shouldn't|couldn't|don't) (?:it|that|you|they)"
    r"|(?:nobody|no one|no-one) (?:would|will|could|can|has to|needs to) "
    r"(?:notice|blame|mind|know|stop)"
    r"|(?:can't|won't|wouldn't) (?:stop|blame|judge) you)\b"
)
# A negation reaches to the end of its clause.
_SCOPE_END = re.compile(
    r"[;:()]|--|[\u2013\u2014]|\b(?:but|however|yet|though|although|except|because|so|then|maybe"
    r"|perhaps)\b"
    r"|, (?:(?:so|then|and|or) "
    r")?(?:you|i|we|please|go|try|do|it|that|this|he|she|they|just|simply|only)\b"
    r"|\band (?:you|i|we)\b"
)
# Here even a negated verb of saying ends.
_HARD_END = re.compile(
    r"[;:]|--|[\u2013\u2014]|\b(?:but|however|yet|though|although)\b|, "
    r"(?:just|simply|only|please)\b"
)
# "I would never tell you to drink, skip your tablets, or ...": the commas do not end this negation.
_NEGATED_SPEECH = re.compile(
    r"\b(?:not|never|\w+n't|nobody|no one)(?: \w+){0,3} "
    r"(?:tell|tells|telling|ask|asking|suggest|suggesting|advise"
    r"|advising|say|saying|encourage|encouraging|recommend|recommending|want|urge|mean)\b"
)
# Somebody else says, thinks or fears what follows.
_REPORT = re.compile(
    r"\b(?:said|says|told|tells|wrote|writes|claim(?:s|ed)|insist(?:s|ed)|mentioned|warn(?:s|ed)"
    r"|thinks|believes"
    r"|believed|asked|asks|called|heard|hears?|hearing|taught|wants|wanted|promised|diagnosed"
    r"|prays|prayed|hopes|fears?"
    r"|(?:you|they|people|some|others|everyone|everybody|friends|parents|voices|boys|kids|many"
    r"|adverts|who"
    r"|\w+ and \w+|\w{3,}s)(?:'re| are| were| often| always| keep| may| might| would| will| used "
    r"to| sometimes){0,2} "
    r"(?:say|saying|tell|telling|think|thinking|thought|feel|felt|wonder|believe|claim|mention"
    r"|write|assume|expect"
    r"|fear|labelled|called|told|hear)"
    r"|(?:easy|tempting|natural|not) to (?:think|believe|say|assume|feel|imagine)"
    r"|(?:worr(?:y|ied|ies)|afraid|scared|concern(?:s|ed)?|risk|danger|chance|urge)(?: that)?"
    r"(?= ?$| (?:you|he|she|they)\b)"
    r"|(?:voice|thought|belief|stereotype|myth|idea|rule|message|story|fear|label)s? "
    r"(?:that|is|are|saying|which|of))\b"
)
_REPORT_AFTER = re.compile(
    r", (?:you|he|she|they|your \w+) (?:says?|said|tells?|told|wrote|writes?)(?: me)?[.!?]*$"
)
# The therapist speaks, or hides behind an authority: no report.
_NO_REPORT = re.compile(
    r"\b(?:i(?:'ve| have)?(?: already| just| always| often)? "
    r"(?:said|told|mentioned|warned|heard|asked|wanted|believed)"
    r"|(?:research|science|stud(?:y|ies)|experts?|evidence|experience|nature|god|the bible) "
    r"(?:says?|tells?|claims?)"
    r"|(?:don't|wouldn't) you (?:think|feel|believe|say)|let me tell you|as you (?:say|said)"
    r"|(?:from|by|with|based on|going by) what you (?:say|tell|said|told)(?: me)?)\b"
)
_REPORT_END = re.compile(
    r";|\bbut\b|\band (?:i|you should|you could)\b|, (?:i|we|so|then|just|go|please)\b|\bso "
    r"(?:you|just|go)\b"
)


def without_quotations(text: str) -> str:
    """Remove quotations of others; of other quotations remove the quotation marks only.

    A quotation is another's if words near it mention saying, writing, thinking or a story, and the
    therapist neither presents it as their own nor agrees. Only the first 1,000 quotations are
    looked at."""
    return _QUOTATION.sub(_unquoted, text, count=_MOST_QUOTATIONS)


def is_negated(text: str, start: int) -> bool:
    """Return whether a negation covers the phrase that starts at `start` of a sentence."""
    before = _NO_NEGATION.sub(" ", text[max(0, start - _CONTEXT_CHARS) : start])
    if _NEGATED_SPEECH.search(_after_last(_HARD_END, before)):
        return True
    if (
        text[:start].endswith((", ", "; ", ": "))
        and " or " not in text[start : start + _LIST_CHARS]
    ):
        return False
    scope = _after_last(_SCOPE_END, before).split()[-_SCOPE_WORDS:]
    return bool(_NEGATOR.search(" ".join(scope)))


def is_reported(text: str, start: int, following: str) -> bool:
    """Return whether the phrase that starts at `start` of a sentence reports others, without the
    therapist's agreement.

    `following` is the next sentence of the same turn, or empty.
    """
    before = _NO_REPORT.sub(" ", text[max(0, start - _CONTEXT_CHARS) : start])
    reported = _REPORT.search(_after_last(_REPORT_END, before)) or _REPORT_AFTER.search(text)
    return reported is not None and not _ENDORSES.search(f"{text[start:]} \n {following}")


def _after_last(end: re.Pattern[str], text: str) -> str:
    return text[max((match.end() for match in end.finditer(text)), default=0) :]


def _unquoted(match: re.Match[str]) -> str:
    inside = match[1] or match[2] or ""
    before = match.string[max(0, match.start() - _BEFORE_CHARS) : match.start()]
    after = match.string[match.end() : match.end() + _AFTER_CHARS]
    lead = _STOP.split(before)[-1]
    trail = _STOP.split(after)[0]
    if _MEANT.search(lead) or _ENDORSES.search(after) or not _SPEECH.search(f"{lead} | {trail}"):
        return f" {inside} "
    return _QUOTED + (
        inside[-1]
        if inside[-1] in ".!?" and not re.match(r"[,;]|\s*(?:to|said|says)\b", after)
        else " "
    )
