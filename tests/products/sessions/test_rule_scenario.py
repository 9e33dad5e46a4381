"""Scenarios as records spell them."""

from genrm_cli.rollouts.scenario import Scenario, parse_scenario


def test_a_scenario_is_read_from_its_fields():
    """Lists and single texts are the same; tasks follow outcomes."""
    record = {
        "scenario": {
            "goal": "de-escalation",
            "hard_constraints": ["crisis protocol"],
            "risk_level": "crisis",
            "expected_outcomes": "validation",
            "tasks": ["safety plan"],
            "client_profile": {
                "faith": "muslim",
                "veteran": True,
                "age": 30,
            },
        }
    }
    assert parse_scenario(record) == Scenario(
        "de-escalation",
        ("crisis protocol",),
        "crisis",
        ("validation", "safety plan"),
        ("muslim", "veteran"),
    )


def test_a_scenario_is_found_where_records_keep_it():
    """Beside the messages, within the metadata, or in the record itself."""
    cases = [
        {"scenario": {"risk_level": "acute"}},
        {"metadata": {"scenario": {"risk_level": "acute"}}},
        {"risk_level": "acute"},
    ]
    for record in cases:
        assert parse_scenario(record).risk_level == "acute"
