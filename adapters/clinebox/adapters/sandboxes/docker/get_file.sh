# get_file.sh OFFSET LIMIT PATH: a part of a regular file on stdout, never through a symlink. Exit codes as put_file.sh,
# and 44: there is no such file.
offset=$1 limit=$2 path=$3 here= rest=${3#/}
cd -P / || exit 42
while [[ $rest == */* ]]; do
  part=${rest%%/*} rest=${rest#*/}
  [[ $part ]] || continue
  here=$here/$part
  [[ -e ./$part || -L ./$part ]] || exit 44
  [[ -d ./$part && ! -L ./$part ]] || { echo "$here" >&2; exit 40; }
  cd -P -- "./$part" || exit 42
done
[[ -e ./$rest || -L ./$rest ]] || exit 44
[[ $rest && -f ./$rest && ! -L ./$rest ]] || exit 41
# Beyond the end there is nothing; busybox refuses large numbers.
((offset == 0 || offset < $(wc -c <"./$rest"))) || exit 0
tail -c "+$((offset + 1))" -- "./$rest" | head -c "$limit"
exit "${PIPESTATUS[0]/141/0}"
