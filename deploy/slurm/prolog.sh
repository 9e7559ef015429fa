#!/bin/sh
# Slurm's Prolog: keeps a job with GPUs away from a node where TensorFlow cannot use them.
#
# slurm.conf:  Prolog=/etc/slurm/tfgpu-prolog.sh
#              PrologFlags=Alloc
#
# Any exit code but 0 drains the node and queues the job again (https://slurm.schedmd.com/prolog_epilog.html).
# TensorFlow is not imported, so that a job starts about a second later; docs/ci.md has a prolog that computes on every
# GPU. Jobs without GPUs do not wait. A check that could not be made stops no job.
PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
export PATH
tfgpu=/opt/tfgpu/bin/tfgpu
python=/opt/tensorflow/bin/python
limit=30 # seconds; 5 more until it is killed

[ -n "${SLURM_JOB_GPUS:-}" ] || exit 0
timeout -k 5 "$limit" "$tfgpu" doctor --python "$python" --no-import -q >&2
code=$?
[ "$code" -eq 1 ] && exit 1
[ "$code" -eq 0 ] || echo "tfgpu: could not check $(uname -n) (exit code $code)" >&2
exit 0
