"""Measure a judge by its verdicts on labelled pairs, each judged in both orders."""
