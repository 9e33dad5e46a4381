"""Which policy is better: win rates and a leaderboard from pairwise verdicts."""
