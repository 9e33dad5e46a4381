"""The check digits of identity, account and card numbers: they tell such a number from any other of its length."""

_DNI_LETTERS = "TRWAGMYFPDXBNJZSQVHLCKE"
_VERHOEFF_STEP = (1, 5, 7, 6, 2, 8, 3, 0, 9, 4)

# Characters of an IBAN after country and check digits. Source: SWIFT, IBAN Registry, release 98.
_IBAN_LENGTHS = (
    (11, "NO"),
    (12, "BE"),
    (14, "DK FI FK FO GL NL SD"),
    (15, "MK SI"),
    (16, "AT BA EE KZ LT LU MN XK"),
    (17, "CH HR LI LV"),
    (18, "BG BH CR DE GB GE IE ME RS VA"),
    (19, "AE GI IL IQ OM SO TL"),
    (20, "AD CZ ES MD PK RO SA SE SK TN VG"),
    (21, "LY PT ST"),
    (22, "IS TR"),
    (23, "BI DJ FR GR IT MC MR SM"),
    (24, "AL AZ BY CY DO GT HN HU LB NI PL SV"),
    (25, "BR EG PS QA UA"),
    (26, "JO KW MU YE"),
    (27, "MT SC"),
    (28, "LC"),
    (29, "RU"),
)
IBAN_BODY_CHARS = {country: length for length, countries in _IBAN_LENGTHS for country in countries.split()}


def luhn_holds(digits: str) -> bool:
    """Whether the last digit is the right one: payment cards, Canadian SIN.

    Source: H. P. Luhn, US patent 2950048; ISO/IEC 7812-1 Annex B.
    """
    total = 0
    for place, digit in enumerate(reversed(digits)):
        doubled = int(digit) * (1 + place % 2)
        total += doubled - 9 * (doubled > 9)
    return total % 10 == 0


def iban_holds(iban: str) -> bool:
    """Whether an IBAN without spaces has its country's length and the right check digits.

    Source: ISO 13616-1, with ISO/IEC 7064 MOD 97-10.
    """
    if len(iban) != 4 + IBAN_BODY_CHARS.get(iban[:2], -4):
        return False
    return int("".join(str(int(char, 36)) for char in iban[4:] + iban[:4])) % 97 == 1


def cpf_holds(digits: str) -> bool:
    """Whether both check digits of a Brazilian CPF of eleven digits are right.

    Source: Receita Federal do Brasil, modulus 11 with the weights 10 to 2, then 11 to 2.
    """
    for length in (9, 10):
        total = sum(int(digit) * (length + 1 - place) for place, digit in enumerate(digits[:length]))
        if int(digits[length]) != total * 10 % 11 % 10:
            return False
    return True


def dni_holds(text: str) -> bool:
    """Whether the letter of a Spanish DNI (eight digits) or NIE (X, Y or Z and seven digits) is right.

    Source: Spanish Ministry of the Interior: the remainder of the number by 23 chooses the letter; X, Y, Z count
    as 0, 1, 2.
    """
    number = str("XYZ".index(text[0])) + text[1:-1] if text[0] in "XYZ" else text[:-1]
    return _DNI_LETTERS[int(number) % 23] == text[-1]


def verhoeff_holds(digits: str) -> bool:
    """Whether the last digit is the right one: Indian Aadhaar.

    Source: J. Verhoeff, Error detecting decimal codes, Mathematical Centre Tracts 29, Amsterdam 1969.
    """
    check = 0
    for place, digit in enumerate(reversed(digits)):
        turned = int(digit)
        for _ in range(place % 8):
            turned = _VERHOEFF_STEP[turned]
        check = _turned_and_flipped(check, turned)
    return check == 0


def _turned_and_flipped(first: int, second: int) -> int:
    """Multiply in the symmetry group of the pentagon: 0 to 4 turn it, 5 to 9 turn and flip it."""
    flipped = (first < 5) != (second < 5)
    turned = first + second if first < 5 else first - second
    return turned % 5 + 5 * flipped
