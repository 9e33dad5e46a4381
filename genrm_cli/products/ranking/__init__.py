"""Compare policies: win rates and a leaderboard from pairwise verdicts."""
