#!/bin/sh
# Records the runs in recorded/ again: about three minutes of real work on two cores, which nothing
# else should use meanwhile. What the tasks print is not kept.
set -e
cd "$(dirname "$0")"
twinloop loop loop.yaml -o new --overwrite || [ $? -le 3 ]
rm -rf recorded
mkdir -p recorded/confirmation
mv new/real new/probes recorded/
mv new/confirmation/runs recorded/confirmation/
rm -rf new
find recorded -name output -type d -prune -exec rm -r {} +
