"""The advice, followed to the letter: broken environments, the doctor's first fix executed, the doctor once more.

`rows.yaml` has environments with real packages, and of made-up ones, which the default tests take.
`environments.py` has the machine, its shells and what a row begins with, `faults.py` what can be broken.
"""
