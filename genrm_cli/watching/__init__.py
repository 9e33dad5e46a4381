"""Watch a judge over many runs: has it changed, is it gamed, does it still tell responses apart?"""
