"""Scenarios as records spell them."""

import pytest

from genrm_cli.rollouts.scenario import Scenario, parse_scenario


def test_a_scenario_is_read_from_its_fields() -> None:
    """Lists and single texts are the same; tasks follow outcomes."""
    record = {
        "scenario": {
            "goal": "de-escalation",
            "hard_constraints": ["crisis protocol"],
            "risk_level": "crisis",
            "expected_outcomes": "validation",
            "tasks": ["safety plan"],
            "client_profile": {"faith": "muslim", "veteran": True, "age": 30},
        }
    }
    assert parse_scenario(record) == Scenario(
        "de-escalation",
        ("crisis protocol",),
        "crisis",
        ("validation", "safety plan"),
        ("muslim", "veteran"),
    )


@pytest.mark.parametrize(
    "record",
    [
        {"scenario": {"risk_level": "acute"}},
        {"metadata": {"scenario": {"risk_level": "acute"}}},
        {"risk_level": "acute"},
    ],
)
def test_a_scenario_is_found_where_records_keep_it(record: dict[str, object]) -> None:
    """Beside the messages, within the metadata, or in the record itself."""
    assert parse_scenario(record).risk_level == "acute"


@pytest.mark.parametrize(
    ("level", "crisis"),
    [
        ("crisis", True),
        ("Acute_risk", True),
        ("moderate", False),
        ("subclinical", False),
        ("", False),
    ],
)
def test_some_risk_levels_are_a_crisis(level: str, crisis: bool) -> None:
    """Crisis, acute, imminent and emergency ask for the protocol."""
    assert Scenario(risk_level=level).is_crisis is crisis
