#!/usr/bin/env bash
# One element of a job array: one task of a release. See release.sh, which submits it.
set -euo pipefail
exec microagg step "$1" --number "$SLURM_ARRAY_TASK_ID" --run "$2" "${@:4}" "$3"
