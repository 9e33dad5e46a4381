"""Real exports, and what loaders need: a tokenizer and a tiny model made here, and no network."""

import importlib.util
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from genrm_process import Genrm
from scored_lines import write_lines
from trainer_sample import PLAIN, Task, lines_of

CHAT_TEMPLATE = """\
{%- if tools %}<|tools|>{{ tools | tojson }}<|end|>{% endif %}
{%- for message in messages %}<|{{ message.role }}|>{{ message.content }}
{%- for call in message.tool_calls or [] %}<|call|>{{ call.function.name }} {{ call.function.arguments }}{% endfor %}
{{- "<|end|>" }}{% endfor %}
{%- if add_generation_prompt %}<|assistant|>{% endif %}"""
SPECIAL = ["<|end|>", "<|pad|>", "<|system|>", "<|user|>", "<|assistant|>", "<|tool|>", "<|tools|>", "<|call|>"]

Export = Callable[..., Path]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip the tests of packages that are not here."""
    for item in items:
        for mark in item.iter_markers("loader"):
            missing = [name for name in mark.args if importlib.util.find_spec(name) is None]
            if missing:
                item.add_marker(pytest.mark.skip(reason=f"needs {', '.join(missing)}: `make test-loaders` installs it"))


@pytest.fixture(scope="session", autouse=True)
def no_hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep loaders, before they are imported, off the network and out of this machine's caches."""
    home = str(tmp_path_factory.mktemp("home"))
    with pytest.MonkeyPatch.context() as patch:
        for name in ("HF_HOME", "MODELSCOPE_CACHE", "XDG_CACHE_HOME", "MPLCONFIGDIR", "TORCHINDUCTOR_CACHE_DIR"):
            patch.setenv(name, home)
        for name in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE", "HF_HUB_DISABLE_TELEMETRY", "DO_NOT_TRACK"):
            patch.setenv(name, "1")
        patch.setenv("TOKENIZERS_PARALLELISM", "false")
        patch.setenv("TRL_EXPERIMENTAL_SILENCE", "1")
        yield


@pytest.fixture
def export(tmp_path: Path) -> Export:
    """Give a test the command: format and tasks → the file that `genrm export` wrote."""
    folder = tmp_path / "work"
    folder.mkdir()

    def run(name: str, tasks: list[Task] = PLAIN, *options: str, suffix: str = ".jsonl") -> Path:
        write_lines(folder / "x.scored.jsonl", lines_of(tasks))
        done = Genrm(folder).run("export", "x.scored.jsonl", "--to", name, "-o", f"out{suffix}", *options)
        assert done.code == 0, done.err
        return folder / f"out{suffix}"

    return run


@pytest.fixture(scope="session")
def tokenizer() -> Any:
    """A tokenizer of bytes, which loses no character, with a chat template that shows all of a message."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    plain = Tokenizer(models.BPE({letter: number for number, letter in enumerate(letters)}, []))
    plain.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    plain.decoder = decoders.ByteLevel()
    plain.add_special_tokens(SPECIAL)
    made = PreTrainedTokenizerFast(tokenizer_object=plain, eos_token=SPECIAL[0], pad_token=SPECIAL[1])
    made.chat_template = CHAT_TEMPLATE
    return made


@pytest.fixture(scope="session")
def model_folder(tokenizer: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Save a tiny language model and its tokenizer."""
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=16,
        intermediate_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        num_key_value_heads=2,
        max_position_embeddings=4096,
        pad_token_id=tokenizer.pad_token_id,
        eos_token_id=tokenizer.eos_token_id,
        bos_token_id=None,
    )
    folder = tmp_path_factory.mktemp("model")
    LlamaForCausalLM(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def render(tokenizer: Any) -> Callable[..., str]:
    """Give a test the text that messages become."""

    def run(messages: list[dict[str, Any]], tools: Any = None) -> str:
        text: str = tokenizer.apply_chat_template(messages, tools=tools, tokenize=False)
        return text

    return run
