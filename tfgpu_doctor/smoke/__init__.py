"""`tfgpu smoke`: whether a machine can be relied on, within a budget of seconds.

records     what is told of each check; the JSON
plan        which steps there are, on which devices, and whether one still fits into the budget. Pure
judging     from the doctor's report and the measured runs to a status and a sentence. Pure
running     the one part with effects: the doctor, then the steps in worker processes
"""
