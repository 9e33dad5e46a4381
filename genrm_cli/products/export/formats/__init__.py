"""The formats by name; each loader's module lists its own."""

from collections.abc import Mapping

from genrm_cli.products.export.formats import (
    huggingface,
    llamafactory,
    preferences,
    prompts,
)
from genrm_cli.products.export.rows import ExportFormat

FORMATS: Mapping[str, ExportFormat] = {
    format_.name: format_
    for module in (huggingface, preferences, llamafactory, prompts)
    for format_ in module.FORMATS
}
