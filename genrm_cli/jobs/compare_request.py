"""Parse compare requests, and render the reply to one."""

from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from genrm_cli.errors import InputError
from genrm_cli.groups.group import Group
from genrm_cli.groups.plan import GroupPlan
from genrm_cli.groups.results import GroupRewards
from genrm_cli.json_types import Record
from genrm_cli.metrics.figures import attempt
from genrm_cli.metrics.run_metrics import RunMetrics, reference_metrics
from genrm_cli.rollouts.declared import check_declared, parse_requirement
from genrm_cli.rollouts.formats import FORMATS
from genrm_cli.rollouts.gym_view import gym_history, gym_texts, refuse_as_gym
from genrm_cli.rollouts.reading.record_fields import principle_of
from genrm_cli.rollouts.rollout import Reasoning, Rollout, Text, UnreadableRecordError
from genrm_cli.storage.encoding.records import BadLineError, parse_record

KEY = "compare"  # a request is one group, which needs no name


def parse_request(
    text: bytes, where: str, plan: GroupPlan, require_metadata: Sequence[str] = ()
) -> Group:
    """Read a compare request; under `compat`, what NeMo Gym accepts and refuses is accepted and
    refused.

    `where` is its name in errors; it must declare all `FIELD=VALUE` pairs of `require_metadata`.
    """
    requirements = [parse_requirement(required) for required in require_metadata]
    try:
        record = parse_record(text)
        group = (
            _read_as_gym(record)
            if plan.shows_as_gym
            else Group(KEY, FORMATS["compare"].read(record))
        )
        group = replace(
            group, rollouts=[plan.with_chosen_fields(rollout, record) for rollout in group.rollouts]
        )
    except (BadLineError, UnreadableRecordError) as error:
        raise InputError(
            f"{where}: {error}. Expected a compare request, as in "
            '{"conversation_history": [{"role": "user", "content": "..."}], '
            '"response_objs": [...]}.'
        ) from error
    try:
        check_declared(record, requirements)
    except UnreadableRecordError as error:
        raise InputError(f"{where}: {error}.") from error
    return group


def _read_as_gym(record: Record) -> Group:
    """Read a request of any number of responses, each of them an object, even an empty one."""
    history = record.get("conversation_history")
    responses = record.get("response_objs")
    _require_objects("conversation_history", history)
    _require_objects("response_objs", responses)
    refuse_as_gym(record)
    turns = gym_history(history)
    principle = principle_of(record)
    rollouts = []
    records = []
    for response in responses if isinstance(responses, list) else ():
        reasoning, answer = gym_texts(response)
        rollouts.append(Rollout(turns, (Reasoning(reasoning), Text(answer)), principle))
        records.append({**record, "response_objs": response})
    return Group(KEY, rollouts, records)


def _require_objects(name: str, values: object) -> None:
    if not isinstance(values, list):
        raise UnreadableRecordError(f"{name} is not a list, which NeMo Gym refuses (HTTP 422)")
    for index, value in enumerate(values):
        if not isinstance(value, Mapping):
            raise UnreadableRecordError(
                f"{name}[{index}] is not an object, which NeMo Gym refuses (HTTP 422)"
            )


def compare_reply(result: GroupRewards, rewards: Sequence[float | None]) -> Record:
    """Return the reference's reply to a compare request; failed comparisons are omitted."""
    if len(result.scores) < 2:  # only under --compat
        return {"rewards": rewards, "comparison_results": None, "metrics": None}
    metrics = RunMetrics()
    for verdict in result.verdicts.values():
        metrics.add_scores(verdict)
    verdicts = [
        {
            "response_i": comparison.i,
            "response_j": comparison.j,
            "judge_idx": comparison.judge_idx,
            "score_1": verdict.score_1,
            "score_2": verdict.score_2,
            "ranking": verdict.ranking,
        }
        for comparison, verdict in result.verdicts.items()
    ]
    return {
        "rewards": rewards,
        "comparison_results": verdicts,
        "metrics": attempt({}, (), lambda: reference_metrics(metrics)),
    }
