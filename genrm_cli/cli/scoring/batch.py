"""`genrm batch`: answer files of requests through a batch API."""

from genrm_cli.cli.console import print_json, say
from genrm_cli.cli.events import watched
from genrm_cli.cli.options import Invocation, argument, run_to_end
from genrm_cli.settings.declare import MAX_DURATION_S, setting
from genrm_cli.settings.kinds import DURATION


def batch(
    invocation: Invocation,
    requests: list[str] = argument(
        "REQUESTS",
        "Files that genrm score --requests-to wrote: paths, s3://bucket/key, or patterns.",
    ),
    wait: float | None = setting(
        "Wait this long for the batches. 0: submit them and exit; the same command collects them "
        "later. Default: until they end.",
        kind=DURATION,
        low=0,
        high=MAX_DURATION_S,
        panel="Request files",
    ),
    cancel: bool = setting(
        "Cancel the batches in progress, and write the replies received so far.",
        False,
        panel="Request files",
    ),
) -> None:
    """Answer files of requests through the batch API of OpenAI or of a provider that follows it.

    Submits each file as a batch, waits until it ends, and writes replies.jsonl for requests.jsonl.
    Run the same command again at any time: nothing is submitted twice. The exit code is 6 while
    batches are in progress.

    Example: genrm batch requests.jsonl --base-url https://api.openai.com/v1

    Example: genrm batch 'requests*.jsonl' --base-url https://api.openai.com/v1 \\
      --wait 0
    """
    from genrm_cli.products.batches.answer_files import answer_files

    settings = invocation.settings
    with watched(settings, invocation.api_keys) as run:
        replies = run_to_end(answer_files(requests, run, wait, cancel=cancel))
    if settings.output.json_output:
        print_json({"replies": replies})
    else:
        say(*(f"replies       {uri}" for uri in replies))
