# install_cline_runtime.sh NAME=VALUE...: puts the pinned Cline binary into this sandbox, once (SPEC section 9).
#
#   version=3.0.65      the version; what the binary must call itself
#   platform=linux-x64  what the package is for
#   sha512=HEX          of the npm tarball, 128 hexadecimal digits
#   registry=URL        of npm, http or https, without credentials
#   directory=DIR       where to publish; default /tmp/clinebox-cline-VERSION
#   timeout_s=N         for all of it; default 300
#   lock_wait_s=N       for another installer to publish; default 60, which is also the most
#
# Published is DIR/cline and DIR/ready, nothing else. On success one line goes to stdout: `installed DIR/cline`, or
# `reused DIR/cline` without any download. Everything else goes to stderr; its last line says why it failed.
# Needs bash 4, /proc, ls mv rm rmdir mkdir chmod sleep uname, curl or wget, tar, gzip and sha512sum. flock is used
# when it is there. The functions of find_tools.sh stand above: the two are one script when they are sent. All of it
# is read before the first function runs, so it may come through a pipe.

USAGE=10 PLATFORM=11 NO_GLIBC=12 NO_TOOLS=13 CANNOT_WRITE=14 DISK_FULL=15 OFFLINE=16 REFUSED=17 TIMED_OUT=18
WRONG_DIGEST=19 BAD_TARBALL=20 CANNOT_RUN=21 LOCK_HELD=22 STALE=23 NOT_OURS=24

TARBALL_LIMIT_KB=262144  # 3.0.65 has 51,332: a server that never ends must not fill the disk
BINARY_LIMIT_KB=524288   # 3.0.65 has 148,500
TRY_OUT_CS=6000          # `cline --version` took 0.4 to 3 s
ATTEMPTS=3               # of a download
POLL_S=0.1

VERSION= CPU= SHA512= REGISTRY= DIRECTORY= TIMEOUT_S=300 LOCK_WAIT_S=60 LOADER= STAGE= CHILD= MODE=

main() {
  trap 'give_up 129' HUP
  trap 'give_up 130' INT
  trap 'give_up 143' TERM
  trap clear_stage EXIT
  exec 3>&1 1>&2 < /dev/null
  export LC_ALL=C
  umask 022
  read_arguments "$@"
  check_platform
  look
  find_tools
  open_stage
  look
  download
  unpack
  try_out
  publish
}

die() {  # die CODE SENTENCE: the sentence is the last line of the log
  printf 'install_cline_runtime: %s\n' "$2"
  exit "$1"
}

give_up() {
  trap '' HUP INT TERM
  end_child
  die "$1" "stopped by a signal"
}

end_child() {  # with all that it started: it leads its own process group
  [[ $CHILD ]] && kill -s KILL -- "-$CHILD" 2> /dev/null && wait "$CHILD" 2> /dev/null
  CHILD=
}

answer() {  # answer WORD
  printf '%s %s/cline\n' "$1" "$DIRECTORY" >&3
  exit 0
}

# now: NOW = hundredths of a second since the boot; monotonic, which SECONDS is not.
now() {
  local up
  read -r up _ < /proc/uptime
  NOW=$((10#${up/./}))
}

read_arguments() {
  local each value
  for each; do
    value=${each#*=}
    case $each in
      version=*) [[ $value =~ ^[0-9A-Za-z][0-9A-Za-z.+-]{0,63}$ ]] && VERSION=$value ;;
      platform=linux-x64) PACKAGE=cli-$value CPU=x86_64 LOADER=/lib64/ld-linux-x86-64.so.2 ;;
      platform=linux-arm64) PACKAGE=cli-$value CPU=aarch64 LOADER=/lib/ld-linux-aarch64.so.1 ;;
      sha512=*) [[ $value =~ ^[0-9a-f]{128}$ ]] && SHA512=$value ;;
      # Credentials would stand in the process list of a sandbox; `@` stands in no other part of a registry's address.
      registry=*) [[ $value =~ ^https?://[^[:space:][:cntrl:]@?#]+$ ]] && REGISTRY=${value%/} ;;
      directory=*) [[ $value =~ ^(/[^/[:cntrl:]]+)+$ && ! $value =~ /\.\.?(/|$) ]] && DIRECTORY=$value ;;
      timeout_s=*) [[ $value =~ ^[1-9][0-9]{0,4}$ ]] && TIMEOUT_S=$value ;;
      lock_wait_s=*) [[ $value =~ ^[0-9]{1,2}$ ]] && ((10#$value <= 60)) && LOCK_WAIT_S=$((10#$value)) ;;
      *) false ;;
    esac || die $USAGE "cannot use the argument ${each%%=*}"  # not its value: an address may hold a password
  done
  [[ $VERSION && $CPU && $SHA512 && $REGISTRY ]] || die $USAGE "needs version, platform, sha512 and registry"
  : "${DIRECTORY:=/tmp/clinebox-cline-$VERSION}"
  PARENT=${DIRECTORY%/*}/ NAME=${DIRECTORY##*/}
  WORKSHOP=$DIRECTORY.install-$EUID
  READY="sha512=$SHA512"
  now
  DEADLINE=$((NOW + TIMEOUT_S * 100))
}

# check_platform: by bash alone until the C library is known. gcompat puts a loader of glibc's name over musl's.
check_platform() {
  local machine musl=(/lib/ld-musl-*.so.1)
  if [[ ! -e $LOADER ]]; then
    [[ -e ${musl[0]} ]] && die $NO_GLIBC "this image has musl: Cline's binary needs glibc (Debian, Ubuntu, Fedora)"
    die $NO_GLIBC "$LOADER is missing: Cline's binary for $CPU needs glibc (Debian, Ubuntu, Fedora)"
  fi
  [[ -e ${musl[0]} && $("$LOADER" --version 2>&1) == *[Mm]usl* ]] \
    && die $NO_GLIBC "$LOADER stands for musl's: Cline's binary needs glibc itself (Debian, Ubuntu, Fedora)"
  machine=$(uname -s -m) || die $NO_TOOLS "uname is missing: install coreutils in the image"
  case $machine in
    "Linux $CPU") ;;
    "Linux amd64") [[ $CPU == x86_64 ]] ;;
    "Linux arm64") [[ $CPU == aarch64 ]] ;;
    *) false ;;
  esac || die $PLATFORM "this sandbox is ${machine:0:60}, and the pinned binary is for Linux $CPU"
}

# mine PATH TYPE: whether PATH itself (no link is followed) is of that type, belongs to us or to root, and only
# its owner may write it. OWNER and SIZE are set.
mine() {
  local mode rest
  read -r mode _ OWNER _ SIZE rest < <(ls -ldn -- "$1" 2> /dev/null) || return 1
  [[ ${mode:0:1} == "$2" && ($OWNER == "$EUID" || $OWNER == 0) && ${mode:5:1} != w && ${mode:8:1} != w ]]
}

# ready: whether the runtime is published. Its size tells one that was cut by a full disk; its digest was compared
# before it was published, and who can write it now is us, or root.
ready() {
  local line
  mine "$DIRECTORY" d && mine "$DIRECTORY/ready" - && mine "$DIRECTORY/cline" - && [[ -x $DIRECTORY/cline ]] || return
  IFS= read -r line < "$DIRECTORY/ready" && [[ $line == "$READY bytes=$SIZE" ]]
}

# look: reuses what is published, and refuses what may not be replaced; else MODE is empty where nothing stands, and a
# stale directory of ours stands there. The order counts: what another user, or one without flock, publishes after
# the first line is found by the second, or by the mv that cannot replace it.
look() {
  local owner
  read -r MODE _ owner _ < <(ls -ldn -- "$DIRECTORY" 2> /dev/null) || return 0
  ready && answer reused
  [[ ${MODE:0:1} == d && $owner == "$EUID" ]] \
    || die $NOT_OURS "$DIRECTORY is no directory of uid $EUID: remove it, or choose another directory"
  has flock && return
  rmdir -- "$DIRECTORY" 2> /dev/null && MODE= && return
  ready && answer reused
  die $STALE "$DIRECTORY is stale, and without flock it may be another session's: install util-linux, or remove it"
}

# open_stage: a directory of our own beside the published one, on the same file system. It is locked while we live,
# and so is told from one whose installer was killed: those are removed.
open_stage() {
  local said
  if ! said=$(mkdir -m 700 -- "$WORKSHOP" 2>&1) && ! { mine "$WORKSHOP" d && [[ $OWNER == "$EUID" ]]; }; then
    [[ -e $WORKSHOP || -L $WORKSHOP ]] && die $NOT_OURS "$WORKSHOP is no private directory of uid $EUID: remove it"
    cannot "$WORKSHOP cannot be made" "$said"
  fi
  take_lock
  sweep
  STAGE=$WORKSHOP/stage.$$.$RANDOM$RANDOM
  said=$(mkdir -- "$STAGE" "$STAGE/new" "$STAGE/new/$NAME" 2>&1) || cannot "$STAGE cannot be made" "$said"
  CLINE=$STAGE/new/$NAME/cline
  ! has flock || { exec 8< "$STAGE" && flock -n 8; } || cannot "$STAGE cannot be locked" ""
  exec 9>&-
}

# take_lock: fd 9, outside of what is replaced. mv inherits it, so that it is held as long as mv can still act, also
# when we are killed. Asked for again and again: busybox flock cannot wait for a bounded time.
take_lock() {
  local end said
  has flock || return 0
  said=$({ : >> "$WORKSHOP/lock"; } 2>&1) && exec 9>> "$WORKSHOP/lock" || cannot "the lock cannot be opened" "$said"
  now
  end=$((NOW + LOCK_WAIT_S * 100))
  until flock -n 9; do
    now
    ((NOW < DEADLINE)) || die $TIMED_OUT "timeout_s=$TIMEOUT_S is over, and another installer holds $WORKSHOP/lock"
    ((NOW < end)) || die $LOCK_HELD "another installer holds $WORKSHOP/lock for more than $LOCK_WAIT_S s"
    sleep $POLL_S
  done
}

sweep() {
  local each
  has flock || return 0
  for each in "$WORKSHOP"/stage.*; do
    [[ -d $each ]] && exec 7< "$each" && flock -n 7 && rm -rf -- "$each"
  done
  exec 7<&-
}

clear_stage() { [[ ! $STAGE ]] || rm -rf -- "$STAGE"; }

# full WORDS: by the words of whoever met a full disk, or by meeting it ourselves (curl does not say it).
full() {
  local words=$1
  [[ $STAGE ]] && words+=$({ printf '%65536s' '' > "$STAGE/room"; } 2>&1)
  [[ $words == *"No space left"* || $words == *"quota exceeded"* ]]
}

cannot() {  # cannot SENTENCE WORDS
  full "$2" && die $DISK_FULL "$1: the disk is full"
  die $CANNOT_WRITE "$1${2:+: $2}"
}

hear() {  # SAID = what a step printed, on one line; less the query of an address, which may be signed
  local lines=()
  mapfile -t -n 400 lines < "$STAGE/said"
  lines=("${lines[@]/\?*/?...}")
  ((${#lines[@]})) && printf '%s\n' "${lines[@]}"
  SAID="${lines[*]}"
}

download() {
  local url=$REGISTRY/@cline/$PACKAGE/-/$PACKAGE-$VERSION.tgz attempt code
  for ((attempt = 1; ; attempt++)); do
    printf 'downloading %s\n' "$url"
    bounded "$DEADLINE" fetch "$url" 2> "$STAGE/said"
    code=$?
    hear
    ((code == 0)) && break
    worth_another "$code" && ((attempt < ATTEMPTS)) || no_tarball "$code"
    sleep "$attempt"
  done
  read -r FOUND _ < <(sha512sum < "$STAGE/tgz")
  [[ $FOUND == "$SHA512" ]] || die $WRONG_DIGEST "the tarball is not the pinned one: its SHA-512 is ${FOUND:0:128}"
}

fetch() {
  local options=()  # busybox 1.35 of Debian 12 dies of -T; the deadline bounds it as well
  ulimit -f $TARBALL_LIMIT_KB
  now
  if has curl; then
    exec curl --globoff --fail --silent --show-error --location --proto =http,https --connect-timeout 20 \
      --speed-limit 1000 --speed-time 30 --max-time $(((DEADLINE - NOW) / 100 + 1)) --output "$STAGE/tgz" -- "$1"
  fi
  [[ $(wget --version 2> /dev/null) == *GNU* ]] && options=(-nv --tries=1 --timeout=30)
  exec wget "${options[@]}" -O "$STAGE/tgz" "$1"
}

http_status() {  # from the words of curl, GNU wget or busybox wget; fails where there is none
  [[ $SAID == *"Authentication Failed"* ]] && STATUS=401 && return  # GNU wget names it so
  [[ $SAID =~ (error:|ERROR|HTTP/[0-9.]+)\ ([45][0-9][0-9]) ]] && STATUS=${BASH_REMATCH[2]}
}

worth_another() {
  { (($1 == 124 || $1 == 153)) || full "$SAID"; } && return 1
  ! http_status || [[ $STATUS == 5* || $STATUS == 408 || $STATUS == 425 || $STATUS == 429 ]]
}

no_tarball() {
  full "$SAID" && cannot "the tarball does not fit" "$SAID"
  http_status && die $REFUSED "the registry answered HTTP $STATUS to $REGISTRY/@cline/$PACKAGE"
  case $1 in
    124 | 28) die $TIMED_OUT "the tarball did not come in time (timeout_s=$TIMEOUT_S)" ;;
    153) die $REFUSED "the registry sent more than $TARBALL_LIMIT_KB KiB" ;;
    *) die $OFFLINE "the registry gave no tarball (exit $1): ${SAID:0:300}" ;;
  esac
}

unpack() {
  local code
  bounded "$DEADLINE" extract 2> "$STAGE/said"
  code=$?
  hear
  if ((code != 0)) || [[ ! -s $CLINE ]]; then
    full "$SAID" && cannot "the binary does not fit" "$SAID"
    ((code == 124)) && die $TIMED_OUT "the binary was not unpacked in time (timeout_s=$TIMEOUT_S)"
    die $BAD_TARBALL "the tarball has no whole package/bin/cline: ${SAID:0:300}"
  fi
  chmod 555 "$CLINE" && mine "$CLINE" - && rm -f -- "$STAGE/tgz" \
    && { printf '%s bytes=%s\n' "$READY" "$SIZE" > "${CLINE%cline}ready"; } 2> "$STAGE/said" && return
  hear
  cannot "the binary could not be made ready" "$SAID"
}

# extract: to stdout, so that no name, owner, mode or link of the archive matters; only the binary is written.
extract() {
  ulimit -f $BINARY_LIMIT_KB
  gzip -dc < "$STAGE/tgz" | tar -xOf - package/bin/cline > "$CLINE"
  [[ ${PIPESTATUS[*]} == "0 0" ]]
}

# try_out: a noexec mount, a missing library or CPU feature shows here, and not as an agent that did nothing.
try_out() {
  local version= end code
  now
  end=$((NOW + TRY_OUT_CS < DEADLINE ? NOW + TRY_OUT_CS : DEADLINE))
  bounded $end ask_version > "$STAGE/version" 2> "$STAGE/said"
  code=$?
  hear
  IFS= read -r -n 100 version < "$STAGE/version"
  [[ $version == "$VERSION" ]] \
    || die $CANNOT_RUN "the binary does not run here (exit $code, it says '$version'): ${SAID:0:300}"
}

ask_version() {
  cd "$STAGE" && HOME=$STAGE TMPDIR=$STAGE IS_TEST=true exec "$CLINE" --version 7<&- 8<&- 9>&-
}

# publish: under the lock, so that nobody removes what another has published. Moved into its parent, and not to its
# name: an mv without -T would put it into a directory that stands there.
publish() {
  local said
  take_lock
  look
  if [[ $MODE ]]; then
    said=$(mkdir -- "$STAGE/old" 2>&1 && mv -- "$DIRECTORY" "$STAGE/old/" 2>&1) \
      || cannot "the stale $DIRECTORY cannot be moved away" "$said"
  fi
  said=$(mv -- "$STAGE/new/$NAME" "$PARENT" 2>&1) && answer installed
  look
  cannot "$DIRECTORY cannot be published" "$said"
}

((BASH_VERSINFO[0] >= 4)) || { printf 'install_cline_runtime: bash 4 is needed, this is %s\n' "$BASH_VERSION" >&2; exit 13; }
main "$@"
