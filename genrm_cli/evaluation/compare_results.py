"""Compare two judges by their evaluation results."""

from dataclasses import asdict
from typing import Any

from genrm_cli.errors import InputError
from genrm_cli.evaluation.accuracy import Judgement, PairOutcome, Preference
from genrm_cli.evaluation.significance import compare_judges
from genrm_cli.storage.encoding.records import BadLineError, parse_record
from genrm_cli.storage.location import S3Options
from genrm_cli.storage.objects import read_object
from genrm_cli.verdicts import FailureKind

_MEANINGS = {"right": Preference.CHOSEN, "wrong": Preference.REJECTED, "tie": Preference.TIE}


def compare_results(a_uri: str, b_uri: str, s3: S3Options) -> dict[str, Any]:
    """Compare two judges by two result files of `genrm eval`.

    Raises:
        InputError: a file is not such a result, or both judges did not judge any pair in both orders.
        StorageError: a file cannot be read.
    """
    a, b = _read_result(a_uri, s3), _read_result(b_uri, s3)
    outcomes_a, outcomes_b = _outcomes_of(a, a_uri), _outcomes_of(b, b_uri)
    contest = compare_judges(outcomes_a, outcomes_b)
    if not contest.pairs:
        shared = contest.left_out
        why = f"none of the {shared} pairs they share has all four verdicts" if shared else "they share no pairs"
        raise InputError(f"{a_uri} and {b_uri} cannot be compared: {why}. Evaluate both judges on the same file.")
    return {
        "a": {"result": a_uri, "judge": a.get("judge"), "settings_digest": a.get("settings_digest")},
        "b": {"result": b_uri, "judge": b.get("judge"), "settings_digest": b.get("settings_digest")},
        "pairs_a": len(outcomes_a),
        "pairs_b": len(outcomes_b),
        **asdict(contest),
    }


def _read_result(uri: str, s3: S3Options) -> dict[str, Any]:
    content = read_object(uri, s3)
    if content is None:
        raise InputError(f"{uri}: no such file; check the path")
    try:
        return parse_record(content)
    except BadLineError as error:
        raise InputError(f"{uri}: {error}. Expected a result written by `genrm eval PAIRS -o {uri}`.") from error


def _outcomes_of(result: dict[str, Any], uri: str) -> dict[str, PairOutcome]:
    try:
        return {str(record["key"]): _outcome_of(record) for record in result["pairs"]}
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(f"{uri}: not a result of `genrm eval`: its pairs cannot be read ({error!r}).") from error


def _outcome_of(record: dict[str, Any]) -> PairOutcome:
    return PairOutcome(
        str(record["item"]), _judgement_of(record["chosen_first"]), _judgement_of(record["chosen_second"])
    )


def _judgement_of(order: dict[str, Any]) -> Judgement:
    word = order["result"]
    return Judgement(_MEANINGS[word] if word is not None else FailureKind(order["failure"]["kind"]))
