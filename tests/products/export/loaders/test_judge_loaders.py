"""What `datasets` and TRL make of training data for judges."""

import pytest
from genrm_process import Genrm, read_lines
from judged_lines import by_name, score_replies

pytestmark = [
    pytest.mark.slow,
    pytest.mark.loader("trl", "datasets"),
    pytest.mark.filterwarnings("default"),
    pytest.mark.timeout(600),
]

BY_SUFFIX = pytest.mark.parametrize("suffix", [".jsonl", ".parquet"])


@pytest.fixture
def load(tmp_path):
    """Score with known replies, export to a format, and load the file as the command says."""
    from datasets import load_dataset

    folder = tmp_path / "work"
    folder.mkdir()

    def run(to, suffix, *flags):
        score_replies(
            Genrm(folder).run, folder, [["a1", "b1", "c1"], ["a2", "b2"]], by_name, *flags
        )
        for output in ("rows.jsonl", f"rows{suffix}"):
            done = Genrm(folder).run(
                "export", "x.scored.jsonl", "--to", to, "-o", output, "--force"
            )
            assert done.code == 0, done.err
        kind = suffix.removeprefix(".").replace("jsonl", "json")
        loaded = load_dataset(kind, data_files=str(folder / f"rows{suffix}"), split="train")
        return read_lines(folder / "rows.jsonl"), loaded

    return run


@BY_SUFFIX
def test_replies_of_a_judge_are_learned(load, tokenizer, model_folder, render, tmp_path, suffix):
    """`SFTTrainer` (trl 1.16.0) renders request and reply, and trains a step on them."""
    from trl import SFTConfig, SFTTrainer

    rows, dataset = load("judge-sft", suffix)
    assert [row["messages"] for row in dataset] == [row["messages"] for row in rows]
    args = SFTConfig(
        output_dir=str(tmp_path / "trained"),
        **{
            "max_steps": 1,
            "report_to": "none",
            "use_cpu": True,
            "bf16": False,
            "save_strategy": "no",
        },
        max_length=8192,
    )
    trainer = SFTTrainer(
        str(model_folder), args=args, train_dataset=dataset, processing_class=tokenizer
    )
    seen = [tokenizer.decode(row["input_ids"]) for row in trainer.train_dataset]
    assert seen == [render(row["messages"]) for row in rows]
    assert len(seen) == 8
    trainer.train()


@BY_SUFFIX
def test_labelled_requests_have_the_types_of_nvidias(load, suffix):
    """The rows can be joined with those of Nemotron-RLHF-GenRM-v1."""
    from datasets import Dataset, Features, List, Value, concatenate_datasets

    message = {
        "role": Value("string"),
        "content": Value("string"),
    }
    numbers = dict.fromkeys(
        (
            "num_responses",
            "score_1",
            "score_2",
            "ranking",
        ),
        Value("int64"),
    )
    nvidias = Features(
        {
            "messages": List(List(message)),
            "uuid": Value("string"),
            **numbers,
            "license": Value("string"),
        }
        | {"used_in": List(Value("string"))}
    )
    rows, dataset = load("genrm-rl", suffix)
    theirs = {
        "messages": [[{"role": "user", "content": "x"}]],
        "uuid": "u",
        "num_responses": 2,
        "ranking": 6,
    }
    theirs |= {
        "score_1": None,
        "score_2": None,
        "license": "cc-by-4.0",
        "used_in": ["super_v3"],
    }
    joined = concatenate_datasets(
        [Dataset.from_list([theirs], features=nvidias), dataset.cast(nvidias)]
    )
    assert list(joined)[1:] == rows
    assert len(rows) == 8
