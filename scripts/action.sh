#!/usr/bin/env bash
# The GitHub Action around `tfgpu smoke`: installs tfgpu into an environment of its own, runs it, and tells the job.
#
# Reads INPUT_* (action.yml says what they mean) and GITHUB_ACTION_PATH, GITHUB_OUTPUT, RUNNER_TEMP; tfgpu itself reads
# GITHUB_STEP_SUMMARY. Leaves with the exit code of tfgpu smoke. Works in bash 3.2 and later.
#
# The checkout is the current directory: -I keeps Python from importing a json.py or a pip/ that lies in it.
set -euo pipefail

work="$(mktemp -d "${RUNNER_TEMP:-/tmp}/tfgpu-smoke.XXXXXX")"
report="$work/smoke.json"
junit="$work/smoke.xml"

# What others wrote must not be read as a workflow command: no line of it begins with ::, none holds ##[. The runner
# takes a carriage return for the end of a line, too; no other control character is left.
quoted() { tr '\r' '\n' | LC_ALL=C tr -d '\000-\010\013-\037\177' | sed -e 's/##/# #/g' -e '/^tfgpu: /!s/^/tfgpu: /'; }

# One error for the page of the run. $1 is our own text.
fail() {
  echo "::error title=tfgpu smoke::$1"
  tell unknown ""
  exit 2
}

tell() {
  [[ -s "$report" ]] || report="" junit=""  # no names of files that are not there
  {
    echo "verdict=$1"
    echo "gpus=$2"
    echo "report=$report"
    echo "junit=$junit"
  } >> "${GITHUB_OUTPUT:-/dev/null}"
}

# Sets the array `tfgpu` to the command; installs it first, unless it is there.
install_tfgpu() {
  local source="${INPUT_SOURCE:-$GITHUB_ACTION_PATH}"
  if [[ "$source" == installed ]]; then
    tfgpu=(tfgpu)
    command -v tfgpu > /dev/null || fail "source is 'installed', but there is no tfgpu on PATH"
    return
  fi
  "${INPUT_HOST_PYTHON:-python3}" -I -m venv "$work/env" 2>&1 | quoted \
    || fail "the environment for tfgpu could not be made (the log shows why): host-python must be a Python that starts, and has the module venv"
  "$work/env/bin/python" -I -m pip install --quiet --disable-pip-version-check -- "$source" 2>&1 | quoted \
    || fail "tfgpu could not be installed (the log shows why): it needs Python 3.10 or later (host-python)"
  tfgpu=("$work/env/bin/tfgpu")
}

# Appends to the array `arguments`: the words of one line, or a line each where there are several lines.
further_arguments() {
  local text="$1" line
  if [[ "$text" == *$'\n'* ]]; then
    while IFS= read -r line || [[ -n "$line" ]]; do
      if [[ -n "$line" ]]; then arguments+=("$line"); fi
    done <<< "$text"
  elif [[ -n "$text" ]]; then
    local words
    read -r -a words <<< "$text"
    if [[ ${#words[@]} -gt 0 ]]; then arguments+=("${words[@]}"); fi
  fi
}

# Prints the verdict, a blank, and how many GPUs there are. Nothing else of the result is believed.
summed_up() {
  "${INPUT_HOST_PYTHON:-python3}" -I -c '
import json, sys
with open(sys.argv[1], encoding="utf-8") as stream:
    result = json.load(stream)
verdict = result["verdict"]
print(verdict if verdict in ("ok", "failed", "unknown") else "unknown", len(result["gpus"]))
' "$1"
}

install_tfgpu
arguments=(smoke "--python=$INPUT_PYTHON" "--require-gpus=$INPUT_REQUIRE_GPUS" "--budget=$INPUT_BUDGET")
if [[ -n "${INPUT_MIN_TFLOPS:-}" ]]; then arguments+=("--min-tflops=$INPUT_MIN_TFLOPS"); fi
further_arguments "${INPUT_ARGUMENTS:-}"
for word in "${arguments[@]}"; do
  case "$word" in
    --format* | --output*) fail "arguments cannot hold --format or --output: the outputs report and junit name the files" ;;
  esac
done
arguments+=(--format github --format json --format junit --output - --output "$report" --output "$junit")

code=0
"${tfgpu[@]}" "${arguments[@]}" 2> "$work/stderr" || code=$?
quoted < "$work/stderr"
if [[ ! -s "$report" ]]; then
  # The message is one line, in which only % could begin an escape of the runner.
  why="$(quoted < "$work/stderr" | sed -n 's/^tfgpu: Error: //p' | tail -n 1)"
  echo "::error title=tfgpu smoke::it ended with exit code $code before there was a result: ${why:+${why//%/%25}; }see the log"
  tell unknown ""
  exit "$((code ? code : 3))"
fi
read -r verdict gpus <<< "$(summed_up "$report")"
tell "${verdict:-unknown}" "${gpus:-}"
exit "$code"
