// Package clients tries the kubeconfig entry that kubehsm writes with other
// people's programs: the oldest kubectl that Debian has and the newest, the
// Python, JavaScript and Ruby clients, and helm.
package clients
