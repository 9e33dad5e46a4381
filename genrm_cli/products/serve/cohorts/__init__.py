"""Cohorts: their members, rounds and answers, in memory and in the journal."""
