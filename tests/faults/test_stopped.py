def test_a_deadline_ends_the_run_with_what_it_has(scoring):
    """No call begins after --deadline, those in flight are waited for, and partial results are
    written: exit code 6.
    """
    scoring.server.behave(latency_s=0.3)
    finished = scoring.run("--deadline", 1.5, "--concurrency", 2).ended(6)
    assert "stopped by --deadline" in finished.err
    metrics = scoring.check_honest()
    assert metrics["partial"]
    assert metrics["stopped_by"] == "deadline"
    assert set(metrics["failures_by_kind"]) == {"not_asked"}
    assert 1 <= metrics["verdicts"] == scoring.journaled() < 16
    stats = scoring.server.stats()
    assert (stats["requests"], stats["abandoned"]) == (metrics["verdicts"], 0)
    scoring.check_resumes()
