#!/usr/bin/env bash
# A release by job arrays of Slurm, without Dask: every task is an element of an array, and this script, on a login node
# or in a small job of its own, does what lies between. It can be started again at any time: what is done stays done.
#
#     deploy/slurm/release.sh /shared/release.yaml [--id 2026-11-18] [--replace] [--set output.url=s3://dev/people]
#
# Spec, input, work area and output are in reach of every node under the same names (a shared disk, or a bucket).
# A spec with `id: date` wants --id, because the last call may be made on another day than the first.
# SBATCH_TASK_OPTIONS are what each task may use, and the partition or account that pays for it.
set -euo pipefail

spec=${1:?usage: release.sh release.yaml [--id ID] [--replace] [--set PATH=VALUE]}
shift
read -ra options <<<"${SBATCH_TASK_OPTIONS:---cpus-per-task=1 --mem=2G --time=01:00:00}"
going_on=()
settings=() # a task reads the same spec, but has no id
for ((i = 1; i <= $#; i++)); do
    if [[ ${!i} == --set ]]; then
        i=$((i + 1))
        settings+=(--set "${!i:?--set wants PATH=VALUE}")
    elif [[ ${!i} == --set=* ]]; then
        settings+=("${!i}")
    fi
done

while true; do
    # Where this fails it has said why, and the script ends with its exit code.
    next=$(microagg step report "$@" "${going_on[@]}" "$spec")
    [[ $next == done ]] && break
    read -r step numbers run <<<"$next"
    going_on=(--run "$run")
    # Returns when all tasks have ended, with the greatest of their exit codes. An array of tasks numbered above 1000
    # needs a greater MaxArraySize in slurm.conf.
    sbatch --wait --quiet "${options[@]}" --job-name="microagg-$step" --array="$numbers" \
        --output="microagg-$step-%a.log" "$(dirname "${BASH_SOURCE[0]}")/task.sh" "$step" "$run" "$spec" \
        "${settings[@]}"
done
