#!/bin/sh
# tfgpu doctor, smoke or bench once on each node with GPUs of a Kubernetes cluster: a line of JSON for each node.
#
#     collect.sh IMAGE GPUS [COMMAND...] > nodes.jsonl        the lines for: tfgpu fleet nodes.jsonl
#
# IMAGE has tfgpu (deploy/docker), GPUS is how many GPUs a node has, COMMAND is doctor, smoke or bench with its options;
# without one, doctor --require-gpus GPUS. The nodes are those with the label of NVIDIA's GPU feature discovery, or with
# the one in NODE_LABEL ("cloud.google.com/gke-accelerator"). kubectl's context and namespace count.
#
# Exit codes: 0 all nodes answered, whatever they found, 1 a node gave no answer, 2 wrong usage, 3 no node could be asked.
set -eu
usage() {
    echo "collect.sh: $1; usage: collect.sh IMAGE GPUS [COMMAND...]" >&2
    exit 2
}
[ $# -ge 2 ] || usage "an image and a number of GPUs are needed"
image=$1
gpus=$2
shift 2
case $gpus in *[!0-9]* | 0 | "") usage "$gpus is no number of GPUs" ;; esac
[ $# -gt 0 ] || set -- doctor --require-gpus "$gpus"
words=
for word in "$image" "$@"; do
    case $word in *[!A-Za-z0-9._=,:/@+-]* | "") usage "$word has a character that cannot be passed on" ;; esac
    [ "$word" = "$image" ] || words="$words${words:+, }\"$word\""
done

folder=$(dirname "$0")
run=tfgpu-$(date -u +%Y%m%d-%H%M%S)-$$
mine=app.kubernetes.io/instance=$run
lines=$(mktemp)
trap 'rm -f "$lines"; kubectl delete jobs --selector "$mine" --wait=false >&2 || true' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

nodes=$(kubectl get nodes --selector "${NODE_LABEL:-nvidia.com/gpu.present=true}" --output name) || exit 3
if [ -z "$nodes" ]; then
    echo "collect.sh: no node has the label ${NODE_LABEL:-nvidia.com/gpu.present=true}" >&2
    exit 3
fi
for node in $nodes; do
    sed -e "s|@RUN@|$run|; s|@NODE@|${node#node/}|; s|@IMAGE@|$image|; s|\"@GPUS@\"|$gpus|; s|\"@WORDS@\"|$words|" \
        "$folder/job.yaml"
    echo ---
done | kubectl create --filename - >&2 || exit 3

# shellcheck disable=SC2016  # the variables are of kubectl's templates
is_open='{{range .items}}{{$open := true}}{{range .status.conditions}}{{if or (eq .type "Complete") (eq .type "Failed")}}'
# shellcheck disable=SC2016
is_open=$is_open'{{$open = false}}{{end}}{{end}}{{if $open}}x{{end}}{{end}}'
seconds=0
while open=$(kubectl get jobs --selector "$mine" --output "go-template=$is_open") && [ -n "$open" ]; do
    [ $((seconds % 60)) -ne 0 ] || echo "collect.sh: waiting for ${#open} nodes" >&2
    sleep "${TFGPU_INTERVAL:-5}"
    seconds=$((seconds + 5))
done

kubectl logs --selector "$mine" --tail=-1 --ignore-errors | grep '^{"schema":"tfgpu.node/1",' >"$lines" || true
cat "$lines"
named='{{range .items}}{{index .metadata.annotations "tfgpu/node"}}{{range .status.conditions}}{{if eq .type "Failed"}}'
named=$named' {{.reason}}{{end}}{{end}}{{"\n"}}{{end}}'
kubectl get jobs --selector "$mine" --output "go-template=$named" | {
    code=0
    while read -r node reason; do
        if grep -qF "\"node\":\"$node\"" "$lines"; then continue; fi
        case $reason in
            DeadlineExceeded) why="its pod did not start, or did not end, within an hour" ;;
            *) why="its pod wrote no result${reason:+ ($reason)}" ;;
        esac
        printf '{"schema":"tfgpu.node/1","node":"%s","result":null,"failure":"%s"}\n' "$node" "$why"
        code=1
    done
    if grep -qF '"result":null,' "$lines"; then code=1; fi
    exit "$code"
}
