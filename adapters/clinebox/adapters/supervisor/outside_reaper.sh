# outside_reaper.sh look|end MARKER BOUND_CS [PID START]: what is left of a run, seen from outside its supervisor.
#
# Fed to `bash -s`, below the functions of process_table.sh, so that nothing in the sandbox can have changed it.
# Prints one JSON object: was the supervisor (PID, START) alive, and which processes are alive now. `end` first
# ends the supervisor and everything that carries the marker, within BOUND_CS centiseconds.

main() {
  local mode=$1 supervisor=unknown
  MARKER=$2 FENCE=$((16#${2:0:12} | 1 << 48))
  printf cb-reaper > "/proc/$$/comm"
  open_idle
  if [[ ${5-} ]]; then
    supervisor=dead
    is_alive "$4" "$5" && supervisor=alive
  fi
  ENDED=0
  if [[ $mode == end ]]; then
    scan
    ENDED=${#MEMBERS[@]}
    [[ $supervisor == alive ]] && send KILL "$4" "$5"
    end_members "$3"
  else
    scan
  fi
  list_members 32
  printf '{"supervisor":"%s","ended":%d,"survivors":%s}\n' "$supervisor" "$ENDED" "$LISTED"
}

{ main "$@"; exit; }
