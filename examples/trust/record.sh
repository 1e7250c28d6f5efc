#!/bin/sh
# Records the runs of the set `trust` of twinloop.recordings again: about 40 s of real work on two
# cores, which nothing else should use meanwhile. The output of the tasks is not kept, nor the list
# of commands, which names a folder of the machine.
set -e
cd "$(dirname "$0")"
for name in one two; do
  for run in "$name" "$name-again"; do
    twinloop execute "$name.yaml" -o "recorded/$run" --overwrite
    rm -r "recorded/$run/output" "recorded/$run/commands.txt"
  done
done
python -m twinloop.recordings pack recorded ../../src/twinloop/recordings/trust.tar.zst
rm -rf recorded
