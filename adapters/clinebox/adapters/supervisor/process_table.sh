# process_table.sh: finding and ending processes from /proc alone. Functions only; bash 4.0, no program needed.
#
# A process belongs to the run when one of these holds, and then it is remembered by pid *and* start time:
#   - its environment carries the marker CLINEBOX_SUPERVISOR=<random>, inherited over double fork and setsid;
#   - its soft limit of file locks is the session's number. Linux has not used RLIMIT_LOCKS since 2.4.25
#     (getrlimit(2)), so it changes nothing, and `env -i` does not take it away as it does the marker;
#   - its parent belongs;
#   - the leader of its process group or session belongs, or did.

HEARD=
OLDEST=0               # start time of the supervisor: what is older cannot belong
KERNEL_THREAD=0x200000 # PF_KTHREAD in stat's flags
SIZER=                 # our own process that looks at sizes, which is no part of the run
declare -A KNOWN=()    # pid -> start time of everything that was ever seen to belong
declare -A MEMBERS=()  # pid -> start time of what belongs and is alive, as of the last scan

# now: NOW = centiseconds since boot. Monotonic, unlike EPOCHREALTIME.
now() {
  local up
  read -r up _ < /proc/uptime
  NOW=$((10#${up%.*}${up#*.}))
}

# read_stat PID: STATE PARENT GROUP SESSION FLAGS START; fails when there is no such process.
# `read` splits an ordinary line four times as fast as anything else. The name in parentheses may hold anything
# (") Z 1 " and line ends too), but 15 bytes at most: then a ")" stands among the next fields, or START is missing.
read_stat() {
  local name a b c d e f g h i j k l
  START=
  {
    read -r _ name STATE PARENT GROUP SESSION a b FLAGS c d e f g h i j k l _ _ START _ < "/proc/$1/stat"
  } 2> /dev/null || [[ $name ]] || return 1
  [[ $START && $name == *')' && "$STATE$PARENT$GROUP$SESSION$a$b$FLAGS$c$d$e$f$g" != *')'* ]] \
    || read_odd_stat "$1"
}

# read_odd_stat PID: what counts follows the last ")".
read_odd_stat() {
  local stat=
  { IFS= read -r -d '' stat < "/proc/$1/stat"; } 2> /dev/null
  [[ $stat ]] || return 1
  set -f
  # shellcheck disable=SC2086 # numbers, to be split
  set -- ${stat##*)}
  set +f
  STATE=$1 PARENT=$2 GROUP=$3 SESSION=$4 FLAGS=$7 START=${20}
}

# is_alive PID START: the very process, not another that got its number. A zombie is not alive.
is_alive() {
  [[ $1 && $2 ]] && read_stat "$1" && [[ $START == "$2" && $STATE != [ZXx] ]]
}

# send SIGNAL PID START: never to init, ourselves, or a number that was given away since.
send() {
  [[ $2 && $3 ]] && (($2 > 1 && $2 != $$ && $2 != BASHPID)) && is_alive "$2" "$3" && kill -s "$1" "$2" 2> /dev/null
}

carries_marker() {
  local text=
  { IFS= read -r -d '' text < "/proc/$1/limits"; } 2> /dev/null
  [[ $text =~ 'Max file locks'\ +"$FENCE"\  ]] && return 0
  # bash leaves NUL out, so the environment reads as one string (until a \001, which prompts hold).
  {
    while text=; IFS= read -r -d $'\001' text || [[ $text ]]; do
      [[ $text == *"CLINEBOX_SUPERVISOR=$MARKER"* ]] && return 0
    done < "/proc/$1/environ"
  } 2> /dev/null
  return 1
}

# led_by_member LEADER: it is remembered, and its number was not given to another process.
led_by_member() {
  [[ ${KNOWN[$1]-} ]] && [[ ${STARTS[$1]-${KNOWN[$1]}} == "${KNOWN[$1]}" ]]
}

remember() {
  KNOWN[$1]=$2 MEMBERS[$1]=$2
}

# scan: fills MEMBERS.
scan() {
  local -A STARTS=() PARENTS=() GROUPS_=() SESSIONS=()
  local path pid grown
  MEMBERS=()
  for path in /proc/[0-9]*; do
    pid=${path#/proc/}
    ((pid > 1 && pid != $$ && pid != BASHPID && pid != SIZER)) || continue
    read_stat "$pid" && [[ $STATE != [ZXx] ]] && ((START >= OLDEST && !(FLAGS & KERNEL_THREAD))) || continue
    STARTS[$pid]=$START PARENTS[$pid]=$PARENT GROUPS_[$pid]=$GROUP SESSIONS[$pid]=$SESSION
    if [[ ${KNOWN[$pid]-} == "$START" ]] || carries_marker "$pid"; then remember "$pid" "$START"; fi
  done
  grown=1
  while ((grown)); do
    grown=0
    for pid in "${!STARTS[@]}"; do
      [[ ${MEMBERS[$pid]-} ]] && continue
      if [[ ${MEMBERS[${PARENTS[$pid]}]-} ]] || led_by_member "${GROUPS_[$pid]}" \
        || led_by_member "${SESSIONS[$pid]}"; then
        remember "$pid" "${STARTS[$pid]}"
        grown=1
      fi
    done
  done
}

# end_members BOUND: until a whole scan finds nothing alive, at most BOUND centiseconds; fails when that is over.
# What is found is stopped first and killed when a scan brings nothing new: a fork bomb's stopped children hold
# their places, so that it runs dry.
end_members() {
  local -A frozen=()
  local pid until fresh
  now
  until=$((NOW + $1))
  while scan; ((${#MEMBERS[@]})); do
    fresh=0
    for pid in "${!MEMBERS[@]}"; do
      [[ ${frozen[$pid]-} == "${MEMBERS[$pid]}" ]] && continue
      frozen[$pid]=${MEMBERS[$pid]} fresh=1
      send STOP "$pid" "${MEMBERS[$pid]}"
    done
    now
    ((fresh && NOW < until)) && continue
    for pid in "${!MEMBERS[@]}"; do send KILL "$pid" "${MEMBERS[$pid]}"; done
    ((NOW < until)) || { scan; ((${#MEMBERS[@]} == 0)); return; }
    pause 0.01
  done
}

# open_idle: descriptor 9 becomes a pipe that never ends, to wait on without a program. Needs no /dev/fd.
open_idle() {
  coproc IDLE { read -r; }
  exec 9<> "/proc/self/fd/${IDLE[0]}"
  eval "exec ${IDLE[1]}>&-"
  wait "$IDLE_PID" 2> /dev/null
}

# pause SECONDS: returns early with MESSAGE when the runner reports something. What came before the time was
# over, and is not yet a whole line, is kept for the next time.
pause() {
  local part=
  MESSAGE=
  if IFS= read -r -t "$1" -u 9 part; then
    MESSAGE=$HEARD$part HEARD=
  else
    HEARD+=$part
  fi
  ((${#HEARD} < 256)) || HEARD=
}

# describe PID START: AGE in seconds ("null" where the clocks disagree) and COMMAND, bounded; the bare name in
# brackets, as ps(1) writes it, for a process that shows no arguments.
describe() {
  local word= age
  COMMAND=
  {
    while IFS= read -r -d '' word || [[ $word ]]; do
      COMMAND+="${COMMAND:+ }$word"
      ((${#COMMAND} > 160)) && break
    done < "/proc/$1/cmdline"
  } 2> /dev/null
  [[ $COMMAND ]] || { IFS= read -r word < "/proc/$1/comm"; } 2> /dev/null && COMMAND=${COMMAND:-[$word]}
  COMMAND=${COMMAND:0:160}
  now
  age=$((NOW - $2))
  AGE=null
  ((age >= 0)) && printf -v AGE '%d.%02d' $((age / 100)) $((age % 100))
}

# json_string TEXT: JSON holds it, quoted.
json_string() {
  local LC_ALL=C text=$1 out= i char
  text=${text//\\/\\\\}
  text=${text//\"/\\\"}
  if [[ $text == *[[:cntrl:]]* ]]; then
    for ((i = 0; i < ${#text}; i++)); do
      char=${text:i:1}
      [[ $char == [[:cntrl:]] ]] && printf -v char '\\u%04x' "'$char"
      out+=$char
    done
    text=$out
  fi
  JSON="\"$text\""
}

# list_members LIMIT: LISTED = a JSON array of the first LIMIT members, PIDS = the pids in words.
list_members() {
  local pid count=0
  LISTED= PIDS=
  for pid in "${!MEMBERS[@]}"; do
    ((count++ < $1)) || break
    describe "$pid" "${MEMBERS[$pid]}"
    json_string "$COMMAND"
    LISTED+="${LISTED:+,}{\"pid\":$pid,\"age_s\":$AGE,\"command\":$JSON}"
    PIDS+="${PIDS:+, }$pid"
  done
  LISTED="[$LISTED]"
}
