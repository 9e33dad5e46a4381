"""The rows that the server answers with; NeMo Gym runs this test with those of its own servers."""

import json
from pathlib import Path
from unittest import TestCase

from resources_servers.genrm_serve.app import masked

EXAMPLES = Path(__file__).parent.parent / "data" / "example.jsonl"


class TestRows(TestCase):
    """Rows without a reward, and the example data."""

    def test_a_row_without_a_reward_is_masked_where_trainers_look(self) -> None:
        """It keeps its own fields and records the reason."""
        row = masked({"x": 1, "instance_config": {"y": 2}}, "genrm serve: 503")
        self.assertEqual((row["x"], row["mask_sample"]), (1, True))
        self.assertEqual(row["instance_config"], {"y": 2, "mask_sample": True})
        self.assertEqual(row["failure_reason"], "genrm serve: 503")

    def test_the_examples_are_prompts(self) -> None:
        """Five rows, each a turn of the user."""
        rows = [json.loads(line) for line in EXAMPLES.read_text(encoding="utf-8").splitlines()]
        self.assertEqual(len(rows), 5)
        for row in rows:
            self.assertEqual(row["responses_create_params"]["input"][0]["role"], "user")
