"""How good a judge is: from its verdicts on labelled pairs, asked in both orders, to figures."""
