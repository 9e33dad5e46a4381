"""Have a judge grade, rank or cluster responses by rubrics, and parse its replies."""
