"""The advice, followed to the letter: broken environments, the doctor's first fix executed, the doctor once more.

`rows.py` is the table of environments with real packages, `made_up_rows.py` that of made-up ones, which the default
tests take. `following.py` goes round the loop, `machine.py` has the shells and the driver, `environments.py` what a
row begins with, `faults.py` what can be broken. `python -m tests.loop` runs rows and writes
`benchmarks/results/advice_loop.json` and the table of `docs/advice.md`.
"""
