# put_file.sh MODE PATH <CONTENT: puts a whole file in place by rename, parents made 0700, never through a symlink.
# Exit codes: 40 a part of the path is no directory, 41 there is something else than a regular file, 42 could not be
# written (the reason on stderr), 43 disk full.
umask 077
mode=$1 path=$2 here= rest=${2#/}
cd -P / || exit 42
while [[ $rest == */* ]]; do
  part=${rest%%/*} rest=${rest#*/}
  [[ $part ]] || continue
  here=$here/$part
  [[ -e ./$part || -L ./$part ]] || mkdir -- "./$part" || exit 42
  [[ -d ./$part && ! -L ./$part ]] || { echo "$here" >&2; exit 40; }
  cd -P -- "./$part" || exit 42
done
[[ $rest && $rest != . ]] || exit 41
[[ ! -e ./$rest && ! -L ./$rest ]] || [[ -f ./$rest && ! -L ./$rest ]] || exit 41
temporary=.$RANDOM$RANDOM$RANDOM.$$
trap 'rm -f -- "./$temporary"' EXIT
set -C
if ! { words=$({ cat >"./$temporary"; } 2>&1) && words=$(chmod -- "$mode" "./$temporary" 2>&1); }; then
  echo "$words" >&2
  [[ $words == *"No space left on device"* ]] && exit 43
  exit 42
fi
mv -f -- "./$temporary" "./$rest" || exit 42
