"""The advice, followed to the letter: broken environments, the doctor's first fix executed, the doctor once more.

`rows.yaml` has environments with real packages, and of made-up ones, which the default tests take.
`following.py` goes round the loop, `machine.py` has the shells and the driver, `environments.py` what a row begins
with, `faults.py` what can be broken.
"""
