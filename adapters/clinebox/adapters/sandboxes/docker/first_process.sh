# first_process.sh [TTL_S]: pid 1 of a container. It lives until its time is over, and reaps what is left to it.
#
# Builtins only: the agent may have replaced every program of the image. No signal from inside ends it
# (pid_namespaces(7)), so `kill -9 -1` leaves it alive. The clock is the kernel's uptime, which nobody can set.
# `read -t` reaps nothing while it waits (seen with bash 5.2), hence the short steps.
trap '' HUP INT QUIT TERM USR1 USR2 PIPE ALRM
exec 3<> <(:)
if [[ ! ${1-} ]]; then
  while :; do read -r -u 3 _; done
fi
read -r now _ </proc/uptime
end=$((${now%.*} + $1))
while read -r now _ </proc/uptime && ((${now%.*} < end)); do
  read -r -t 1 -u 3 _
done
