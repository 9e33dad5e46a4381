"""Fixtures of tests with the packages of trainers: a tokenizer and a tiny model made here, and no
network.
"""

import importlib.util
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

CHAT_TEMPLATE = """\
{%- if tools %}<|tools|>{{ tools | tojson }}<|end|>{% endif %}
{%- for message in messages %}<|{{ message.role }}|>{{ message.content }}
{%- for call in message.tool_calls or [] %}<|call|>{{ call.function.name }} {{ call.function.arguments }}{% endfor %}
{{- "<|end|>" }}{% endfor %}
{%- if add_generation_prompt %}<|assistant|>{% endif %}"""  # noqa: E501
SPECIAL = [
    "<|end|>",
    "<|pad|>",
    "<|system|>",
    "<|user|>",
    "<|assistant|>",
    "<|tool|>",
    "<|tools|>",
    "<|call|>",
]


@pytest.hookimpl(tryfirst=True)  # before what is not to be run is left out
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests of trainers' packages are slow, allow their warnings, and are skipped where they are
    missing.
    """
    for item in items:
        for mark in item.iter_markers("loader"):
            item.add_marker(pytest.mark.slow)
            item.add_marker(pytest.mark.filterwarnings("default"))
            item.add_marker(pytest.mark.timeout(900))
            missing = [name for name in mark.args if importlib.util.find_spec(name) is None]
            if missing:
                why = f"needs {', '.join(missing)}: `make test-loaders` installs it"
                item.add_marker(pytest.mark.skip(reason=why))


@pytest.fixture(scope="session")
def no_hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep loaders, before they are imported, off the network and out of this machine's caches."""
    home = str(tmp_path_factory.mktemp("home"))
    with pytest.MonkeyPatch.context() as patch:
        for name in (
            "HF_HOME",
            "MODELSCOPE_CACHE",
            "XDG_CACHE_HOME",
            "MPLCONFIGDIR",
            "TORCHINDUCTOR_CACHE_DIR",
        ):
            patch.setenv(name, home)
        for name in (
            "HF_HUB_OFFLINE",
            "TRANSFORMERS_OFFLINE",
            "HF_HUB_DISABLE_TELEMETRY",
            "DO_NOT_TRACK",
        ):
            patch.setenv(name, "1")
        patch.setenv("TOKENIZERS_PARALLELISM", "false")
        patch.setenv("TRL_EXPERIMENTAL_SILENCE", "1")
        yield


@pytest.fixture(scope="session")
def tokenizer(no_hub: None) -> Any:
    """A tokenizer of bytes, which loses no character, with a chat template that shows all of a
    message.
    """
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    plain = Tokenizer(models.BPE({letter: number for number, letter in enumerate(letters)}, []))
    plain.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    plain.decoder = decoders.ByteLevel()
    plain.add_special_tokens(SPECIAL)
    made = PreTrainedTokenizerFast(
        tokenizer_object=plain, eos_token=SPECIAL[0], pad_token=SPECIAL[1]
    )
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
