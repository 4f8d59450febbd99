#!/usr/bin/env bash
# Runs the groups of kubectl's own suite (test/cmd of k8s.io/kubernetes) on a
# control plane that is up, from a copy of the module's folders: what upstream's
# hack/make-rules/test-cmd.sh does once it has built and started everything.
#
# SUITE_KUBECONFIG is who kubectl is, SUITE_SERVER the API server's own URL,
# SUITE_RECORD the file that groups and assertions are written to, WHAT the
# groups ("" for all).
set -o errexit -o nounset -o pipefail

cd "$(dirname "${BASH_SOURCE[0]}")"
export SECURE_API_PORT=${SUITE_SERVER##*:}
source hack/lib/init.sh
source hack/lib/test.sh

# Each assertion is written down twice: when it begins, and with its result when
# it ends. One that never ends ended its group.
suite::record() { local IFS=$'\t'; echo "$*" >>"${SUITE_RECORD}"; }

suite::assert() {
  local suite_assertion=$1 suite_place suite_result
  shift
  if [[ -n "${suite_inside:-}" ]]; then # an assertion that another is made of
    "suite::upstream::${suite_assertion}" "$@"
    return
  fi
  local suite_inside=1
  suite_place="$(basename "${BASH_SOURCE[2]}"):${BASH_LINENO[1]}"
  suite::record assert "${suite_group:-}" "${suite_place}" "${suite_assertion}" begin
  "suite::upstream::${suite_assertion}" "$@"
  suite_result=$?
  suite::record assert "${suite_group:-}" "${suite_place}" "${suite_assertion}" "${suite_result}"
  return "${suite_result}"
}

suite::watch() {
  local function
  for function in $(compgen -A function kube::test::); do
    case ${function} in
    *_assert | *::if_has* | *::if_empty* | *::if_sort* | *::results::diff)
      eval "suite::upstream::$(declare -f "${function}")"
      eval "${function}() { suite::assert ${function} \"\$@\"; }"
      ;;
    esac
  done
}
suite::watch

source test/cmd/legacy-script.sh
# Upstream's, but a group that fails leaves no proxy behind, which would hold the
# pipe that its output goes through.
eVal() {
  (trap stop-proxy EXIT; eval "$1")
  echo "$?" 2>&1 | tr -d "\n" >"${errfile}"
}

eval "suite::upstream::$(declare -f record_command)"
record_command() {
  local suite_group=$1 suite_found=${foundError}
  suite::record group "${suite_group}" begin
  suite::upstream::record_command "$@"
  if [[ "${foundError}" == "${suite_found}" ]]; then
    suite::record group "${suite_group}" passed
  else
    suite::record group "${suite_group}" failed
  fi
}

# What upstream's setup does, but for building, etcd and the kubeconfig.
kube::util::ensure-temp-dir
export HOME="${KUBE_TEMP}"
mkdir -p "${HOME}/.kube"
cp "${SUITE_KUBECONFIG}" "${HOME}/.kube/config"
unset KUBECONFIG
kube::util::ensure-gnu-sed
CONTEXT=$(kubectl config current-context)

# Without a kubelet nobody else makes one. The annotation keeps field managers. A run before this one may have made it.
kubectl get node 127.0.0.1 >/dev/null 2>&1 || kubectl create -f - <<'NODE'
{"kind": "Node", "apiVersion": "v1",
 "metadata": {"name": "127.0.0.1", "annotations": {"save-managers": "true"}},
 "status": {"capacity": {"memory": "1Gi"}}}
NODE
export SUPPORTED_RESOURCES=("*")
runTests
