# find_tools.sh: the programs that an installation needs, looked for and, by root, installed; and a bound on each step.

has() { type -P "$1" > /dev/null; }

find_tools() {
  local missing=() each
  list_missing
  ((${#missing[@]})) || return 0
  ((EUID == 0)) || die $NO_TOOLS "missing: ${missing[*]}. uid $EUID may install nothing: add them to the image"
  for each in apt-get apk dnf microdnf yum; do
    has "$each" && get_packages "$each" && return
  done
  die $NO_TOOLS "missing: ${missing[*]}. There is no apt-get, apk, dnf or yum: add them to the image"
}

list_missing() {
  local each
  missing=()
  has curl || has wget || missing+=("curl or wget")
  for each in tar gzip sha512sum; do has "$each" || missing+=("$each"); done
}

get_packages() {  # get_packages MANAGER; another installer may hold its lock, or bring what is missing
  local each attempt packages=()
  for attempt in 1 2 3; do
    packages=(ca-certificates)
    for each in "${missing[@]}"; do
      case $each in "curl or wget") packages+=(curl) ;; sha512sum) packages+=(coreutils) ;; *) packages+=("$each") ;; esac
    done
    printf 'missing: %s; asking %s for %s\n' "${missing[*]}" "$1" "${packages[*]}"
    ask_manager "$1" "${packages[@]}"
    hash -r
    list_missing
    ((${#missing[@]})) || return 0
    now
    ((NOW < DEADLINE)) || die $TIMED_OUT "missing: ${missing[*]}, and $1 was not done in time (timeout_s=$TIMEOUT_S)"
    sleep "$attempt"
  done
  die $NO_TOOLS "missing: ${missing[*]}, and $1 could not install them: add them to the image"
}

ask_manager() {
  case $1 in
    apt-get)
      local options=(-q -y -o DPkg::Lock::Timeout=60 -o Acquire::http::Timeout=30)
      bounded "$DEADLINE" apt-get "${options[@]}" update
      DEBIAN_FRONTEND=noninteractive bounded "$DEADLINE" apt-get "${options[@]}" install --no-install-recommends "${@:2}"
      ;;
    apk) bounded "$DEADLINE" apk add --no-cache "${@:2}" ;;
    *) bounded "$DEADLINE" "$1" -y install "${@:2}" ;;
  esac
}

# bounded DEADLINE COMMAND...: its exit status; 124 when it had to be killed, with all that it started.
bounded() {
  local status pause=0.01
  set -m
  "${@:2}" &
  CHILD=$!
  set +m
  while kill -0 "$CHILD" 2> /dev/null; do
    now
    if ((NOW >= $1)); then
      end_child
      return 124
    fi
    sleep $pause
    [[ $pause == 0.05 ]] && pause=$POLL_S || pause=0.05
  done
  wait "$CHILD" 2> /dev/null
  status=$?
  CHILD=
  return $status
}
