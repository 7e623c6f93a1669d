# cleanup_phases.sh: how a run is ended in three bounded phases, and the receipt of it. Functions only.

# clean_up: leaves CONFIRMED and the return code.
clean_up() {
  CONFIRMED=true
  end_sizer
  [[ $HARNESS ]] || { [[ $FORCED ]] || ERROR="the runner was killed before it started the harness" FORCED=1; }
  if [[ $FORCED ]]; then
    scan  # remembers the whole tree while parents still tell it
    [[ $HARNESS ]] && grace
    reap_directly
    reap_the_rest || unconfirmed
  else
    end_feeder
    if [[ $SURVIVORS == kill ]]; then reap_the_rest || unconfirmed; else scan; fi
  fi
  collect_return_code
}

# end_feeder: the harness may end without reading its whole prompt, and a child of it may hold the pipe.
end_feeder() {
  while send KILL "$FEEDER" "$FEEDER_START"; do pause 0.01; done
}

# grace: INT first. Cline 3.0.57 to 3.0.65 ignore one TERM and end quietly on INT; others may want TERM.
grace() {
  now
  local half=$((NOW + CLEANUP_CS / 2)) until=$((NOW + CLEANUP_CS))
  ask INT
  until is_over_within "$half"; do
    ((NOW >= until)) && return
    ask TERM
    half=$until
  done
}

# reap_directly: KILL for the harness and its group; then for the runner, which should have ended by itself.
reap_directly() {
  now
  local half=$((NOW + CLEANUP_CS / 2)) until=$((NOW + CLEANUP_CS))
  ask KILL
  [[ $HARNESS ]] && is_over_within "$half" && return
  send KILL "$RUNNER" "$RUNNER_START"
  is_over_within "$until"
}

# ask SIGNAL: the harness, with its group as long as the harness lives in it (so the number is not another's).
# CONT lets a stopped process hear.
ask() {
  local signal
  for signal in "$1" CONT; do
    is_alive "$HARNESS" "$HARNESS_START" || return 0
    if [[ $GROUP == "$HARNESS_GROUP" && $GROUP -gt 1 && $GROUP != "$$" ]]; then
      kill -s "$signal" -- "-$GROUP" 2> /dev/null
    else
      send "$signal" "$HARNESS" "$HARNESS_START"
    fi
  done
}

# is_over_within CENTISECONDS-SINCE-BOOT: waits for the end, woken by the runner's report.
is_over_within() {
  while ! is_over; do
    now
    ((NOW < $1)) || return 1
    pause 0.02
    [[ $MESSAGE ]] && hear
  done
  drain
}

# reap_the_rest: group, session, descendants, marker.
reap_the_rest() {
  end_members "$CLEANUP_CS"
}

unconfirmed() {
  list_members 32
  CONFIRMED=false
  ERROR="${ERROR:+$ERROR; }still alive after all cleanup phases: pids $PIDS"
}

# collect_return_code: the runner's status is the harness's own only when the runner lived to report it.
collect_return_code() {
  local status
  if is_alive "$RUNNER" "$RUNNER_START"; then return; fi
  wait "$RUNNER" 2> /dev/null
  status=$?
  if [[ $EXITED ]]; then
    RETURN_CODE=$status
  else
    ERROR="${ERROR:+$ERROR; }the runner was killed, so the harness's exit status is lost"
  fi
}

write_receipt() {
  local error=null nonce=null by=null notes= note receipt
  list_members 32
  ((${#MEMBERS[@]} > 32)) && NOTES[${#NOTES[@]}]="$((${#MEMBERS[@]} - 32)) more survivors"
  [[ $RUNNER ]] && measure_output
  ((${#MEMBERS[@]})) || ask_sizes  # survivors may hold every place that a program needs
  [[ $ERROR ]] && json_string "$ERROR" && error=$JSON
  [[ $NONCE ]] && json_string "$NONCE" && nonce=$JSON
  [[ $STOPPED_BY ]] && by="\"$STOPPED_BY\""
  for note in "${NOTES[@]}"; do json_string "$note" && notes+="${notes:+,}$JSON"; done
  ended_epoch
  printf -v receipt '{"cleanup_confirmed":%s,"return_code":%s,"timed_out":%s,"error":%s,"nonce":%s,"stopped_by":%s,"survivors":%s,"output_bytes":%s,"started_at":%s,"ended_at":%s,"notes":[%s]}' \
    "${CONFIRMED-true}" "$RETURN_CODE" "$TIMED_OUT" "$error" "$nonce" "$by" "$LISTED" "$OUTPUT_BYTES" \
    "$EPOCH" "$ENDED_EPOCH" "$notes"
  printf '%s\n' "$receipt"  # first: survivors may leave no place for a program, and bash ends then
  [[ -d cleanup.json ]] && rm -rf cleanup.json
  printf '%s\n' "$receipt" > cleanup.json.new && mv -f cleanup.json.new cleanup.json
  [[ ${CONFIRMED-true} == true ]]
  exit
}
