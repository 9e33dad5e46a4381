"""The code that loads an output with the `datasets` library."""


def load_dataset_text(uri: str) -> str:
    """Return the line of Python that loads an output."""
    return f'dataset = load_dataset("{kind_of(uri)}", data_files="{uri}", split="train")'


def kind_of(uri: str) -> str:
    """Return the name of the builder in `datasets` that reads an output."""
    return "parquet" if uri.endswith(".parquet") else "json"
