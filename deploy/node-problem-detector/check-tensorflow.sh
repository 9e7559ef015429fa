#!/bin/sh
# A custom plugin of Kubernetes' node-problem-detector: can TensorFlow use the GPUs of this node?
#
# Its contract (docs/custom_plugin_monitor.md and pkg/custompluginmonitor there): exit code 0 is ok, 1 a problem,
# 2 unknown; one line on standard output is the message, of which 80 bytes are kept. The time limit is in the
# configuration; this one is shorter, so that the message is ours.
#
# tfgpu: 0 no problem, 1 a problem, 2 wrong usage, 3 could not determine; timeout: 124, 137.
tfgpu=/opt/tfgpu/bin/tfgpu
python=/opt/tensorflow/bin/python
limit=40 # seconds

metrics=$(timeout -k 5 "$limit" "$tfgpu" doctor --python "$python" --no-import --format prometheus 2>/dev/null)
code=$?
ids=$(printf '%s\n' "$metrics" | sed -n 's/^tfgpu_doctor_finding{id="\([a-z0-9.-]*\)",severity="error"} 1$/\1/p')

case $code in
    0)
        echo "TensorFlow can use the GPUs"
        exit 0
        ;;
    1)
        printf 'tfgpu: %s' "$ids" | tr '\n' ' ' | head -c 79
        echo
        exit 1
        ;;
    124 | 137) echo "tfgpu doctor gave no answer within $limit s" ;;
    126 | 127) echo "$tfgpu cannot be started" ;;
    *) echo "tfgpu doctor could not determine it (exit code $code)" ;;
esac
exit 2
