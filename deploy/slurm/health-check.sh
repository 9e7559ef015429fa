#!/bin/sh
# Slurm's HealthCheckProgram: drains a node whose GPUs TensorFlow cannot use, and resumes it when they work again.
#
# slurm.conf:  HealthCheckProgram=/etc/slurm/tfgpu-health-check.sh
#              HealthCheckInterval=600
#              HealthCheckNodeState=ANY
#
# slurmd kills it after 60 seconds (https://slurm.schedmd.com/slurm.conf.html#OPT_HealthCheckProgram). TensorFlow is
# not imported: the check takes about a second of one CPU, also beside a running job. A node that somebody else has
# drained stays as it is. A check that could not be made changes nothing.
PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/opt/slurm/bin
export PATH
tfgpu=/opt/tfgpu/bin/tfgpu
python=/opt/tensorflow/bin/python
limit=40 # seconds; 10 more until it is killed

node=${SLURMD_NODENAME:-$(uname -n)}
node=${node%%.*}
metrics=$(timeout -k 10 "$limit" "$tfgpu" doctor --python "$python" --no-import --format prometheus 2>&1)
code=$?
ids=$(printf '%s\n' "$metrics" | sed -n 's/^tfgpu_doctor_finding{id="\([a-z0-9.-]*\)",severity="error"} 1$/\1/p')
reason="tfgpu: $(printf '%s' "$ids" | tr '\n' ' ')"
now=$(timeout 5 scontrol --oneliner show node "$node")

case $code in
    0)
        case $now in
            *DRAIN*Reason=tfgpu:*) timeout 5 scontrol update NodeName="$node" State=RESUME ;;
        esac
        ;;
    1)
        case $now in
            *DRAIN*) ;;
            *) timeout 5 scontrol update NodeName="$node" State=DRAIN Reason="$reason" ;;
        esac
        echo "$reason" >&2
        ;;
    *) printf 'tfgpu: could not check %s (exit code %s): %s\n' "$node" "$code" "$metrics" | head -c 1000 >&2 ;;
esac
exit 0
