#!/bin/bash
# Checks sum.sh beside it; exits 0 when every sum is right.
cd "$(dirname "$0")" || exit 1
failures=0

check() {
  local wanted=$1 got
  shift
  got=$(bash ./sum.sh "$@")
  if [ "$got" = "$wanted" ]; then
    echo "ok: sum of '$*' is $wanted"
  else
    echo "WRONG: sum of '$*' is $got, expected $wanted"
    failures=$((failures + 1))
  fi
}

check 0
check 5 5
check 6 1 2 3
check -1 4 -5
[ "$failures" -eq 0 ]
