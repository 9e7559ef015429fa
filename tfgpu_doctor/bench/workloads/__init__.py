"""Workloads, a file each: what it computes, the work of a sample, how a result is judged, and the computation itself.

A file is read on both sides. The parent asks the functions at its top, which need nothing; the class :class:`Workload`
runs in the worker, in the interpreter under test, which need not have this package: it imports TensorFlow and NumPy
inside its methods, and of this package nothing but files of this folder and `bench/statistics.py` (relatively).
training.py has what all of them share.

For the parent, in every file:
    UNIT                                  "FLOP/s", "images/s": what throughput is counted in
    judge(answer, dtype, parameters)      a :class:`~tfgpu_doctor.bench.workloads.training.Judgement` of what `verify`
                                          answered; rounding of the type is all that it may excuse
and functions for work, FLOP and bytes, whose arguments differ from workload to workload.

For the worker, `Workload(parameters, dtype, devices, spread)`, a :class:`~.training.BaseWorkload`, with
    cold             seconds of the parts of its set-up, by name
    sample(steps)    seconds of `steps` units of work, from the first call to the end on the last device
    placed_on()      the device that each part of the result names, short: "/GPU:0"
    misplaced()      what was computed elsewhere than asked for; None when nothing was
    verify(request)  what is needed to judge the last result, as JSON
    recheck()        the same for a sample that came after; None when it is the verified one bit by bit
    farewell(request)  checks what only the end shows, and lets other machines go; only where the job asks for it
"""
