"""Measure how fast responses are clustered by n-grams: groups of 8 of about 2 KB, some of them near copies.

`python tests/bench/diversity_speed.py` takes a sample and extrapolates; `--sample 176000` measures all of it.
"""

import argparse
import random
import time

from genrm_cli.rewards.diversity import clusters_of, ngram_clusters

ROLLOUTS, GROUP_SIZE, CHARS = 176_000, 8, 2_048
LETTERS = "eeeeeeeeeeeetttttttttaaaaaaaaooooooooiiiiiiinnnnnnnsssssshhhhhhrrrrrrddddllllcccuuummmwwffggyyppbbvk"


def make_group(generator: random.Random, words: list[str]) -> list[str]:
    """Make texts of which every third one is another with a tenth of its words changed."""
    texts: list[list[str]] = []
    for place in range(GROUP_SIZE):
        if place % 3 == 2:
            drawn = [word if generator.random() < 0.9 else generator.choice(words) for word in texts[-1]]
        else:
            drawn = generator.choices(words, k=CHARS // 6)
        texts.append(drawn)
    return [" ".join(drawn)[:CHARS] for drawn in texts]


def make_words(generator: random.Random) -> list[str]:
    """Make a vocabulary of 5,000 words; letters about as common as in English."""
    return ["".join(generator.choices(LETTERS, k=generator.randint(2, 10))) for _ in range(5_000)]


def main() -> None:
    """Cluster group after group; what makes the texts is not measured."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sample", type=int, default=8_000, help="rollouts to measure")
    arguments = parser.parse_args()
    generator = random.Random(1)
    words = make_words(generator)
    wall_s = cpu_s = 0.0
    chars = clusters = 0
    groups = max(1, arguments.sample // GROUP_SIZE)
    for _ in range(groups):
        texts = make_group(generator, words)
        chars += sum(map(len, texts))
        started_s, cpu_started_s = time.perf_counter(), time.process_time()
        found = ngram_clusters(texts)
        clusters_of(found, range(len(found)), len(found), uniform_fallback=False)
        wall_s += time.perf_counter() - started_s
        cpu_s += time.process_time() - cpu_started_s
        clusters += len(set(found))
    share = ROLLOUTS / (groups * GROUP_SIZE)
    print(f"{groups * GROUP_SIZE:,} rollouts of {chars / groups / GROUP_SIZE:,.0f} characters, {clusters:,} clusters")
    print(f"{wall_s:.1f} s; {ROLLOUTS:,} rollouts: {wall_s * share:.1f} s, {cpu_s * share:.1f} s of processor time")


if __name__ == "__main__":
    main()
