"""Turn the verdicts of one group into a base score of each rollout, with its standard error.

`CalibrationStatistics` collects the verdicts of a run, and its `fit()` gives the `Calibration` that
every estimator takes. `estimate` works on one group, `estimate_many` on many, `ESTIMATORS` on a
`VerdictBatch`."""
