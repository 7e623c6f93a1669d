# end_exec.sh MARKER [PID]: ends everything that an exec started: what carries MARKER in its environment, the process
# PID, what is of their sessions, and what descends from these. Prints how many are still alive.
#
# Fed to `bash -s`, builtins only. All are stopped before any is killed: killing one by one would let the others fork.
scan() {
  local path pid rest fields entry grew
  declare -gA parent=() session=() member=()
  for path in /proc/[0-9]*; do
    pid=${path#/proc/}
    [[ $pid == 1 || $pid == "$$" ]] && continue
    IFS= read -r rest 2>/dev/null <"$path/stat" || continue
    read -r -a fields <<<"${rest##*) }"
    [[ ${fields[0]} == [ZX] ]] && continue
    parent[$pid]=${fields[1]} session[$pid]=${fields[3]}
    [[ $pid == "$root" ]] && member[$pid]=1 && continue
    while IFS= read -r -d '' entry; do
      [[ $entry == "CLINEBOX_EXEC=$marker" ]] && member[$pid]=1 && break
    done 2>/dev/null <"$path/environ"
  done
  grew=1
  while [[ $grew ]]; do
    grew=
    for pid in "${!parent[@]}"; do
      [[ ${member[$pid]-} ]] && continue
      [[ ${member[${parent[$pid]}]-} || (${session[$pid]} != 0 && ${member[${session[$pid]}]-}) ]] && member[$pid]=1 grew=1
    done
  done
}

main() {
  local round known
  marker=$1 root=${2-}
  for round in {1..50}; do
    known=-1
    while scan; ((${#member[@]} > known)); do
      known=${#member[@]}
      ((known)) && kill -STOP "${!member[@]}" 2>/dev/null
    done
    ((known)) || break
    kill -KILL "${!member[@]}" 2>/dev/null
  done
  echo "${#member[@]}"
}

{ main "$@"; exit; }
