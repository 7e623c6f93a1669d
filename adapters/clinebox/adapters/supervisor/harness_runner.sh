#!/bin/bash
# harness_runner.sh DIR FENCE: starts the harness, feeds it its prompt through a pipe, and ends with its status.
#
# Started by process_supervisor.sh with descriptors 3 (the harness's stdout), 4 (its stderr) and
# 9 (reports to the supervisor). 126 and 127: the harness could not be run; 128+N: signal N ended it.

# read_vector FILE: VECTOR = its NUL-terminated strings. (`mapfile -d` is bash 4.4.)
read_vector() {
  local item
  VECTOR=()
  while IFS= read -r -d '' item; do VECTOR[${#VECTOR[@]}]=$item; done < "$1"
}

# report_harness: before exec, which keeps pid and start time. stat's second field is our own plain name.
report_harness() {
  local -a stat
  read -r -a stat < /proc/self/stat
  printf 'started %s %s %s\n' "$BASHPID" "${stat[21]}" "${stat[4]}" >&9
}

# close_strays: the harness gets descriptors 0, 1 and 2, and none of ours or of the provider's.
close_strays() {
  local path
  for path in /proc/self/fd/*; do
    ((${path##*/} > 2)) && eval "exec ${path##*/}>&-" 2> /dev/null
  done
}

# become_harness: in a subshell of its own, so that what it exports touches no other program.
become_harness() {
  local pair
  report_harness
  exec >&3 2>&4
  close_strays
  cd -- "$DIRECTORY" || exit 126
  unset OLDPWD
  for pair in "${ENVIRONMENT[@]}"; do export "$pair" || exit 126; done
  exec -- "${ARGUMENTS[@]}"
}

# feed: a pipe, never the file itself: Cline 3.0.57 to 3.0.65 refuse a redirected file below 64 KiB.
feed() {
  printf 'feeder %s\n' "$BASHPID" >&9
  exec cat -- prompt.txt 3>&- 4>&- 9>&-
}

# start_harness: with job control on, so that INT and QUIT are not ignored as in a plain `&` child.
start_harness() {
  set -m
  if [[ -e prompt.txt ]]; then
    feed | become_harness &
  else
    become_harness < /dev/null &
  fi
  HARNESS=$!
  set +m  # off again, or a stopped harness would end `wait`
}

# wait_for_harness: CODE. A trapped signal ends `wait` early; the flag says so.
wait_for_harness() {
  INTERRUPTED=1
  while ((INTERRUPTED)); do
    INTERRUPTED=0
    wait "$HARNESS" 2> /dev/null
    CODE=$?
  done
}

main() {
  cd -- "$1" || exit 126
  printf cb-runner > "/proc/$$/comm"
  trap 'INTERRUPTED=1' HUP INT QUIT TERM USR1 USR2 PIPE ALRM
  ulimit -S -x "$2" 2> /dev/null || printf 'unfenced\n' >&9
  read_vector harness.argv
  ARGUMENTS=("${VECTOR[@]}")
  read_vector harness.env
  ENVIRONMENT=("${VECTOR[@]}")
  IFS= read -r -d '' DIRECTORY < harness.cwd
  start_harness
  wait_for_harness
  printf 'exited %s\n' "$CODE" >&9
  exit "$CODE"
}

{ main "$@"; exit; }
