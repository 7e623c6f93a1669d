# process_supervisor.sh DIR: starts the harness, bounds it, stops it, and writes the cleanup receipt.
#
# The functions of process_table.sh and cleanup_phases.sh stand above: the session uploads the three as one file.
# Exit status: 0 the receipt is positive, 1 it is negative. The receipt goes to cleanup.json by rename, last of
# all, and to stdout: a full disk or a deleted directory takes the file, not the answer.

TICK_CS=10           # how often requests, deadline and output are looked at
SLOW_TICKS=5         # every how many ticks the costlier looks are taken
OUTPUT_TICKS=2       # every how many ticks the streams' offsets are read
SIZES_S=3            # how often a program (stat or wc) is asked for true sizes

RUN_CS=90000 CLEANUP_CS=1000 OUTPUT_LIMIT=268435456 SURVIVORS=keep MARKER= WATCHED=()
NONCE= HARNESS= HARNESS_START= HARNESS_GROUP= FEEDER= FEEDER_START= RUNNER= RUNNER_START= EXITED= SIZER_START=
STOPPED_BY= TIMED_OUT=false RETURN_CODE=null ERROR= TERMINATED= OUTPUT_BYTES=0 SIZES=0 FORCED= NOTES=()

main() {
  HERE=$1
  cd -- "$HERE" && HERE=$PWD || exit 1
  lead_own_group
  printf cb-supervisor > "/proc/$$/comm"  # `pkill bash` by the agent does not mean us
  trap 'TERMINATED=1' HUP INT TERM        # handlers, not '': an ignored signal would be ignored by the harness
  trap : PIPE QUIT USR1 USR2 ALRM
  now
  STARTED=$NOW
  epoch
  open_idle
  look_at_proc
  if prepare && ! requested; then
    start_sizer
    start_runner
    watch
    clean_up
  fi
  write_receipt
}

# lead_own_group: where the provider did not make us a group leader, a child is the supervisor. It gets TERM
# passed on, and its exit status is ours.
lead_own_group() {
  local status
  read_stat "$$" && [[ $GROUP != "$$" ]] || return 0
  printf cb-launch > "/proc/$$/comm"
  set -m
  (exec -a cb-supervisor bash -p ./process_supervisor.sh . < /dev/null) &
  SUPERVISOR=$!
  set +m
  trap 'kill -s TERM "$SUPERVISOR"; INTERRUPTED=1' HUP INT TERM
  INTERRUPTED=1
  while ((INTERRUPTED)); do
    INTERRUPTED=0
    wait "$SUPERVISOR" 2> /dev/null
    status=$?
  done
  exit "$status"
}

# epoch: EPOCH = seconds since 1970 with decimals, at the start. Before bash 5 from /proc alone.
epoch() {
  local name value
  EPOCH=${EPOCHREALTIME-}
  EPOCH=${EPOCH/,/.}  # some locales write a comma
  [[ $EPOCH ]] && return
  while read -r name value; do [[ $name == btime ]] && break; done < /proc/stat
  EPOCH=$((value + NOW / 100)).000000
}

# ended_epoch: EPOCH moved on by the monotonic clock, so that a clock set back does not end the run early.
ended_epoch() {
  local cs
  now
  cs=$((10#${EPOCH%.*} * 100 + 10#${EPOCH:${#EPOCH}-6:2} + NOW - STARTED))
  printf -v ENDED_EPOCH '%d.%02d%s' $((cs / 100)) $((cs % 100)) "${EPOCH:${#EPOCH}-4}"
}

# prepare: configuration, nonce, streams, our pid; fails with ERROR, and then nothing was started.
prepare() {
  read_config || return 1
  { IFS= read -r NONCE < nonce && rm -f nonce; } 2> /dev/null
  [[ $NONCE && ! -e nonce ]] || { ERROR="the nonce cannot be read and removed"; return 1; }
  { exec 3>> stdout.ndjson; } && { exec 4>> stderr.txt; } || { ERROR="the streams cannot be opened"; return 1; }
  read_stat "$$"
  OLDEST=$START
  printf '%s %s\n' "$$" "$START" > supervisor.pid || { ERROR="supervisor.pid cannot be written"; return 1; }
}

# look_at_proc: proc(5): with hidepid another user's processes are not there for us. The last mount is what counts.
look_at_proc() {
  local point options hides=
  while read -r _ point _ options _; do
    [[ $point == /proc ]] || continue
    [[ $options == *hidepid=* && $options != *hidepid=@(0|off)* ]] && hides=1 || hides=
  done < /proc/self/mounts
  [[ ! $hides ]] \
    || NOTES[${#NOTES[@]}]="/proc is mounted with hidepid: only what this user may see was looked for and ended"
}

# read_config: `name=value` lines, read and never sourced.
read_config() {
  local line name value
  while IFS= read -r line || [[ $line ]]; do
    name=${line%%=*} value=${line#*=}
    case $name in
      run_timeout_s) centiseconds "$value" && RUN_CS=$CS ;;
      cleanup_timeout_s) centiseconds "$value" && CLEANUP_CS=$CS ;;
      output_limit_bytes) [[ $value =~ ^[0-9]{1,18}$ ]] && OUTPUT_LIMIT=$((10#$value)) ;;
      survivors) [[ $value == keep || $value == kill ]] && SURVIVORS=$value ;;
      marker) [[ $value =~ ^[0-9a-f]{32}$ ]] && MARKER=$value ;;
      watch) WATCHED[${#WATCHED[@]}]=$value ;;
      *) false ;;
    esac || { ERROR="supervisor.conf: cannot use the line for ${name:0:40}"; return 1; }
  done < supervisor.conf || { ERROR="supervisor.conf cannot be read"; return 1; }
  [[ $MARKER ]] || { read -r MARKER < /proc/sys/kernel/random/uuid && MARKER=${MARKER//-/}; }
  FENCE=$((16#${MARKER:0:12} | 1 << 48))
}

centiseconds() {
  [[ $1 =~ ^([0-9]{1,10})\.([0-9]{2})$ ]] && CS=$((10#${BASH_REMATCH[1]}${BASH_REMATCH[2]}))
}

start_runner() {
  set -m  # its own process group, and default dispositions for INT and QUIT
  (
    export CLINEBOX_SUPERVISOR=$MARKER
    exec -a cb-runner bash -p ./harness_runner.sh . "$FENCE" < /dev/null >&2
  ) &
  RUNNER=$!
  set +m
  read_stat "$RUNNER" && RUNNER_START=$START && KNOWN[$RUNNER]=$START
}

# hear: what the runner reported. The agent can write into this pipe too, so a report must have the one form and
# name a child of the runner; a lie about the end is checked against /proc.
hear() {
  [[ $MESSAGE =~ ^([a-z]+)(\ ([0-9]{1,18}))?(\ ([0-9]{1,20})\ ([0-9]{1,10}))?$ ]] || return 0
  local word=${BASH_REMATCH[1]} pid=${BASH_REMATCH[3]} start=${BASH_REMATCH[5]} group=${BASH_REMATCH[6]}
  case $word in
    started)
      [[ $HARNESS || ! $group ]] && return
      HARNESS=$pid HARNESS_START=$start HARNESS_GROUP=$group
      KNOWN[$HARNESS]=$HARNESS_START
      ;;
    feeder)
      [[ ! $FEEDER && $pid ]] && read_stat "$pid" && [[ $PARENT == "$RUNNER" ]] || return 0
      FEEDER=$pid FEEDER_START=$START KNOWN[$pid]=$START
      ;;
    exited) EXITED=1 ;;
    sizes) [[ $pid ]] && SIZES=$((10#$pid)) ;;
    unfenced) NOTES[${#NOTES[@]}]="no file-lock limit here: only the environment marks processes" ;;
  esac
}

# is_over: the runner has ended, and the harness too (somebody may have killed the runner alone). A runner that
# somebody stopped would never tell of the harness's end.
is_over() {
  is_alive "$RUNNER" "$RUNNER_START" || { ! is_alive "$HARNESS" "$HARNESS_START"; return; }
  [[ $STATE == T ]] && send CONT "$RUNNER" "$RUNNER_START"
  return 1
}

# watch: until the harness has ended by itself, or FORCED says that it must be ended.
watch() {
  local ticks=0
  while :; do
    next_tick
    if [[ $EXITED ]] || ((ticks % SLOW_TICKS == 0)); then is_over && { drain; return; }; fi
    ((ticks % OUTPUT_TICKS == 0)) && measure_output
    if requested || overdue || flooded || { ((ticks % SLOW_TICKS == 0)) && deserted; }; then
      is_over || { FORCED=1; return; }
      STOPPED_BY= TIMED_OUT=false ERROR=  # it was quicker than we
      drain
      return
    fi
    ticks=$((ticks + 1))
  done
}

# next_tick: waits for a report, the deadline or one tick, whatever comes first.
next_tick() {
  local left wait_cs=$TICK_CS
  left=$((STARTED + RUN_CS - NOW))
  ((left < wait_cs)) && wait_cs=$((left > 0 ? left : 0))
  [[ $EXITED ]] && wait_cs=1
  printf -v wait_cs '0.%02d' "$wait_cs"
  pause "$wait_cs"
  now
  [[ $MESSAGE ]] && hear
}

overdue() {
  ((NOW - STARTED >= RUN_CS)) && STOPPED_BY=deadline TIMED_OUT=true
}

flooded() {
  ((OUTPUT_BYTES > OUTPUT_LIMIT || SIZES > OUTPUT_LIMIT)) && STOPPED_BY=output_limit
}

deserted() {
  [[ ! . -ef $HERE ]] && ERROR="the session directory was removed while the harness ran"
}

# drain: what was reported before the end, and not heard yet. A short timeout alone would lose it on a busy machine.
drain() {
  while read -r -t 0 -u 9; do
    pause 1
    [[ $MESSAGE ]] && hear
  done
}

# requested: somebody asked for the end. A stop beats an expiry that lies beside it.
requested() {
  local who=
  if [[ -e stop.request ]]; then
    { IFS= read -r who < stop.request; } 2> /dev/null
    if [[ $who == operator ]]; then STOPPED_BY=operator; else STOPPED_BY=caller; fi
  elif [[ $TERMINATED ]]; then
    STOPPED_BY=operator NOTES[${#NOTES[@]}]="the supervisor received a signal that asks for the end"
  elif [[ -e expire.request ]]; then
    STOPPED_BY=deadline TIMED_OUT=true
  else
    return 1
  fi
}

# measure_output: OUTPUT_BYTES. The streams' own descriptors are ours too, so their offsets say what was
# written, at no cost (files are opened to append).
measure_output() {
  local descriptor position sum=0
  for descriptor in 3 4; do
    read -r _ position < "/proc/self/fdinfo/$descriptor" && sum=$((sum + position))
  done
  ((sum > OUTPUT_BYTES)) && OUTPUT_BYTES=$sum
  return 0
}

# start_sizer: what others write by name is seen in a file's size alone. No builtin of bash knows it, so stat or wc
# is asked where it is there, by a process of its own: where no process can be started any more (a fork bomb under a
# bound), bash 5.2 tries for 15 s and then ends. It carries the session's limit, for a reaper that comes later.
start_sizer() {
  type -P stat wc > /dev/null || return 0
  (
    trap 'exit' HUP INT TERM USR1
    ulimit -S -x "$FENCE"
    printf cb-sizer > "/proc/$BASHPID/comm"
    exec 8>&9 3>&- 4>&- > /dev/null
    open_idle
    while pause "$SIZES_S"; is_alive "$$" "$OLDEST"; do
      ask_sizes
      printf 'sizes %s\n' "$OUTPUT_BYTES" >&8
    done
  ) 2> /dev/null &
  SIZER=$!
  read_stat "$SIZER" && SIZER_START=$START
}

# end_sizer: asked first, so that no program of it is taken for a survivor.
end_sizer() {
  local tries=0
  while send USR1 "$SIZER" "$SIZER_START"; do
    ((tries++ < 20)) || send KILL "$SIZER" "$SIZER_START"
    pause 0.01
    [[ $MESSAGE ]] && hear
  done
}

# ask_sizes: OUTPUT_BYTES, by two programs; only where a fork that fails ends nothing.
ask_sizes() {
  local sizes size sum=0
  sizes=$(true_sizes stdout.ndjson stderr.txt "${WATCHED[@]}" 2> /dev/null)
  for size in $sizes; do sum=$((sum + size)); done
  ((sum > OUTPUT_BYTES)) && OUTPUT_BYTES=$sum
  return 0
}

true_sizes() {
  local file
  if type -P stat > /dev/null; then
    stat -L -c %s -- "$@"
  elif type -P wc > /dev/null; then
    for file; do wc -c < "$file"; done
  fi
}

{ main "$@"; exit; }
