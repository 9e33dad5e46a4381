"""The texts of every format's example line: one question and two answers."""

QUESTION, ANSWER, OTHER_ANSWER = "Name a river.", "The Volga.", "A river."
ASKED = {"role": "user", "content": QUESTION}
ANSWERED, ANSWERED_TOO = ({"role": "assistant", "content": text} for text in (ANSWER, OTHER_ANSWER))
