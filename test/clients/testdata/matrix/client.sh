#!/bin/bash
# A script of curl that does what it is told on its standard input, a line at a time,
# and answers each line by one. $1 is the server's URL; the rest is the plugin, which is
# run once, as a script would. It writes to a file: of a plugin that runs in "$(…)" a
# shell is the client that has ended before curl begins.
server=$1; shift
dir=$(mktemp -d); trap 'kill $watching 2>/dev/null; rm -rf "$dir"' EXIT
field() { printf '%b' "$(sed -n 's/.*"'"$1"'":"\([^"]*\)".*/\1/p' "$dir/credential")" >"$dir/$1"; }
if ! "$@" >"$dir/credential" 2>"$dir/errors"; then echo "failed $(tr '\n' ' ' <"$dir/errors")"; exit 1; fi
# A plugin that is a script can end before its last filter has written the line.
for ((i = 0; i < 100; i++)); do read -r <"$dir/credential" && break; sleep 0.1; done
field clientCertificateData; field clientKeyData
maps=$server/api/v1/namespaces/default/configmaps
ask() { curl -sS --cacert "$CA" --cert "$dir/clientCertificateData" --key "$dir/clientKeyData" "$@"; }
# answer says ok with what sed made of the body, or failed with the body.
answer() {
  local body code
  body=$(ask -w '\n%{http_code}' "${@:2}" 2>&1); code=$?
  case $code,${body##*$'\n'} in
  0,2??) echo "ok $(sed -n "$1" <<<"$body" | head -n 1)" ;;
  *) echo "failed $(tr '\n' ' ' <<<"$body")" ;;
  esac
}
while read -r verb arg; do
  case $verb in
  list) answer 's/.*"kind": *"\(ConfigMapList\)".*/\1/p' "$maps" ;;
  create) answer '/"name":/s/.*"name": *"\([^"]*\)".*/\1/p' -H 'Content-Type: application/json' -d '{"metadata":{"name":"'"$arg"'"}}' "$maps" ;;
  watch)
    ask -N "$maps?watch=1" 2>&1 | sed -un 's/.*"type":"ADDED".*"metadata":{"name":"\([^"]*\)".*/event \1/p' &
    watching=$!
    echo ok ;;
  burst) # the requests of one curl, all at once
    done=$(ask -Z --parallel-immediate --parallel-max 300 -o "$dir/answer-#1" -w '%{http_code}\n' "$maps?n=[1-$arg]" 2>"$dir/errors" | grep -c '^200$')
    [ "$done" = "$arg" ] && echo "ok $done" || echo "failed $done of $arg $(sort "$dir/errors" | uniq -c | head -n 3 | tr '\n' ' ')" ;;
  *) echo "failed $verb" ;;
  esac
done
